package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
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
	domain := c.Domain()
	domain.Timing.OverTime.Duration = 1 // Slurm's
	if missing := zero("settings", reflect.ValueOf(domain)); len(missing) > 0 {
		t.Errorf("not set: %v", missing)
	}
}

// TestPartitionIsWrittenWhole: whatever settings a partition has, its own file keeps.
func TestPartitionIsWrittenWhole(t *testing.T) {
	var want capacity.PartitionSettings
	fill(reflect.ValueOf(&want).Elem())
	want.Groups[0].Select.Tags = map[string]string{"team": "nlp"}
	want.Groups[0].Nodes = capacity.NodeNames{"gpu1", "gpu10", "gpu2"}
	if missing := zero("partition", reflect.ValueOf(want)); len(missing) > 0 {
		t.Fatalf("not set: %v", missing)
	}
	want.File = ""
	text, err := PartitionText(want)
	if err != nil {
		t.Fatal(err)
	}
	var got Config
	if errs := decodeText("gpu.toml", text, &got); len(errs) > 0 {
		t.Fatal(errs)
	}
	if diff := cmp.Diff([]capacity.PartitionSettings{want}, got.Partitions); diff != "" || !strings.Contains(text, `nodes = "gpu[1-2,10]"`) {
		t.Errorf("(-written +read):\n%s\n%s", diff, text)
	}
}
