package awssim

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
)

// decodeForm fills the struct that into points to from the parameters of an EC2 Query request
// that checkRequest has passed.
//
// A field takes the parameter of its own name, or of its form tag. Lists are Name.1, Name.2, …;
// members of structs are Name.Member. Embedded structs add their fields. Optional scalars whose
// zero value means something are pointers. No parameter of AWS's is silently passed over.
func decodeForm(form url.Values, into any) error {
	d := decoder{rest: url.Values{}}
	for k, v := range form {
		if k != "Action" && k != "Version" {
			d.rest[k] = v
		}
	}
	if err := d.structure("", reflect.ValueOf(into).Elem()); err != nil {
		return err
	}
	if len(d.rest) > 0 {
		names := make([]string, 0, len(d.rest))
		for k := range d.rest {
			names = append(names, k)
		}
		slices.Sort(names)
		return apiErrorf("UnknownParameter", "The simulator does not take the parameter %s", strings.Join(names, ", "))
	}
	return nil
}

type decoder struct{ rest url.Values }

// has tells whether the request gives name itself or a member of it.
func (d *decoder) has(name string) bool {
	for k := range d.rest {
		if k == name || strings.HasPrefix(k, name+".") {
			return true
		}
	}
	return false
}

func (d *decoder) structure(prefix string, v reflect.Value) error {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		if f.Anonymous {
			if err := d.structure(prefix, v.Field(i)); err != nil {
				return err
			}
			continue
		}
		name := cmp.Or(f.Tag.Get("form"), f.Name)
		if name == "-" || !d.has(prefix+name) {
			continue
		}
		if err := d.value(prefix+name, v.Field(i)); err != nil {
			return err
		}
	}
	return nil
}

func (d *decoder) value(name string, v reflect.Value) error {
	if v.Type() == reflect.TypeFor[time.Time]() {
		return d.time(name, v)
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		return d.value(name, v.Elem())
	case reflect.Struct:
		return d.structure(name+".", v)
	case reflect.Slice:
		for i := 1; d.has(fmt.Sprintf("%s.%d", name, i)); i++ {
			v.Set(reflect.Append(v, reflect.Zero(v.Type().Elem())))
			if err := d.value(fmt.Sprintf("%s.%d", name, i), v.Index(i-1)); err != nil {
				return err
			}
		}
		return nil
	}
	text, ok := d.take(name)
	if !ok {
		return nil // only members of it are there: reported as unknown at the end
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("decodeForm: %s: %w", name, err)
		}
		v.SetBool(b)
	case reflect.Int, reflect.Int64:
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return fmt.Errorf("decodeForm: %s: %w", name, err)
		}
		v.SetInt(n)
	default:
		return fmt.Errorf("decodeForm: %s has type %s", name, v.Type())
	}
	return nil
}

func (d *decoder) time(name string, v reflect.Value) error {
	text, _ := d.take(name)
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return fmt.Errorf("decodeForm: %s: %w", name, err)
	}
	v.Set(reflect.ValueOf(t.UTC()))
	return nil
}

func (d *decoder) take(name string) (string, bool) {
	values, ok := d.rest[name]
	if !ok {
		return "", false
	}
	delete(d.rest, name)
	return values[0], true
}
