package ec2

import (
	"reflect"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/internal/awsconfig"
)

// Every field that EC2 can answer with must be in the copy, at every depth, so that
// --like loses nothing.
func TestCopyByNameIsComplete(t *testing.T) {
	from := &types.ResponseLaunchTemplateData{}
	fill(reflect.ValueOf(from).Elem())
	to := &types.RequestLaunchTemplateData{}
	if err := copyByName(from, to); err != nil {
		t.Fatal(err)
	}
	// What can only be answered, never asked for.
	from.MetadataOptions.State = ""
	from.NetworkInterfaces[0].Ipv6Addresses[0].IsPrimaryIpv6 = nil
	from.Operator.HiddenByDefault, from.Operator.Managed = nil, nil
	if diff := cmp.Diff(tree(t, from), tree(t, to)); diff != "" {
		t.Errorf("the copy differs (-answered +asked):\n%s", diff)
	}
}

func tree(t *testing.T, v any) map[string]any {
	t.Helper()
	said, err := awsconfig.Properties(v)
	if err != nil {
		t.Fatal(err)
	}
	return said
}

// fill gives every field a value that is not zero.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(time.Unix(1e9, 0)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i))
			}
		}
	case reflect.String:
		v.SetString("x")
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(7)
	case reflect.Float64:
		v.SetFloat(7)
	}
}
