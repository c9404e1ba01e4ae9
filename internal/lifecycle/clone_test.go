package lifecycle

import (
	"reflect"
	"unsafe"
)

// clone copies a value with all that it points to, unexported fields too.
func clone(v reflect.Value) reflect.Value {
	made := reflect.New(v.Type()).Elem()
	made.Set(v)
	deepen(made)
	return made
}

// deepen makes an addressable value share nothing.
func deepen(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			inner := clone(v.Elem())
			if v.Kind() == reflect.Pointer {
				inner = inner.Addr()
			}
			v.Set(inner)
		}
	case reflect.Slice:
		if v.IsNil() {
			return
		}
		all := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			all.Index(i).Set(clone(v.Index(i)))
		}
		v.Set(all)
	case reflect.Map:
		if v.IsNil() {
			return
		}
		all := reflect.MakeMapWithSize(v.Type(), v.Len())
		for key, value := range v.Seq2() {
			all.SetMapIndex(key, clone(value))
		}
		v.Set(all)
	case reflect.Struct:
		if v.Type().PkgPath() == "time" {
			return // a Location is shared
		}
		for i := range v.NumField() {
			f := v.Field(i)
			deepen(reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem())
		}
	}
}
