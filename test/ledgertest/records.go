package ledgertest

import (
	"encoding/json"
	"reflect"
	"time"

	"holon/responses/turns"
)

// now is a time that no store can keep exactly: it is finer than a millisecond
// and not in UTC.
var now = time.Date(2026, 11, 22, 3, 4, 5, 678_912_345, time.FixedZone("", 3600))

// at is a time as a store returns it.
func at(d time.Duration) time.Time { return now.Add(d).UTC().Truncate(time.Millisecond) }

// fill sets every field of a record that is not set, so that a field which a
// store forgets is seen. Its times are too fine on purpose.
func fill(v reflect.Value, text string) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(now))
		return
	case turns.Time:
		v.Set(reflect.ValueOf(turns.At(now)))
		return
	case json.RawMessage:
		v.Set(reflect.ValueOf(json.RawMessage(`{"a":[1,"é"]}`)))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // which no record has
				fill(v.Field(i), text)
			}
		}
	case reflect.Pointer:
		if v.IsNil() {
			v.Set(reflect.New(v.Type().Elem()))
		}
		fill(v.Elem(), text)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"k": text}))
	case reflect.String:
		if v.Len() == 0 {
			v.SetString(text)
		}
	case reflect.Bool:
		v.SetBool(true)
	default:
		if v.CanInt() && v.IsZero() {
			v.SetInt(int64(len(text)))
		}
	}
}

// settle makes the times of a record coarse, as a store returns them.
func settle(v reflect.Value) {
	switch v.Interface().(type) {
	case time.Time:
		v.Set(reflect.ValueOf(at(0)))
		return
	case turns.Time:
		v.Set(reflect.ValueOf(turns.At(at(0))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			settle(v.Field(i))
		}
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			settle(c.Elem())
			v.Set(c)
		}
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() || v.IsNil() {
			return
		}
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			settle(c.Index(i))
		}
		v.Set(c)
	}
}
