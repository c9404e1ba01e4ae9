package config

import (
	"reflect"
	"testing"
)

// fill sets every field of a struct to something.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("1")
	case reflect.Int, reflect.Int64:
		v.SetInt(1)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	default:
		panic(v.Kind())
	}
}

// zero names the fields that are not set.
func zero(name string, v reflect.Value) []string {
	var all []string
	switch {
	case v.IsZero():
		return []string{name}
	case v.Kind() == reflect.Slice:
		return zero(name, v.Index(0))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			all = append(all, zero(name+"."+v.Type().Field(i).Name, v.Field(i))...)
		}
	}
	return all
}

// TestDomainLeavesNothingOut: whatever decisions depend on comes from a setting.
func TestDomainLeavesNothingOut(t *testing.T) {
	var c Config
	fill(reflect.ValueOf(&c).Elem())
	if missing := zero("settings", reflect.ValueOf(c.Domain())); len(missing) > 0 {
		t.Errorf("not set: %v", missing)
	}
}
