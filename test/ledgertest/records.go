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

const day = 24 * time.Hour

// at is a time as a store returns it.
func at(d time.Duration) time.Time { return now.Add(d).UTC().Truncate(time.Millisecond) }

// fill sets every field of a record that is not set, so that a field which a
// store forgets is seen. when is its times.
func fill(v reflect.Value, text string, when time.Time) {
	if whole, ok := map[reflect.Type]any{
		reflect.TypeFor[time.Time]():       when,
		reflect.TypeFor[turns.Time]():      turns.At(when),
		reflect.TypeFor[json.RawMessage](): json.RawMessage(`{"a":[1,"é"]}`),
	}[v.Type()]; ok {
		v.Set(reflect.ValueOf(whole))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Tag.Get("json") != "-" { // which no record has
				fill(v.Field(i), text, when)
			}
		}
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text, when)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text, when)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"k": text}))
	case reflect.Bool:
		v.SetBool(true)
	default:
		switch {
		case !v.IsZero(): // an id
		case v.CanInt():
			v.SetInt(int64(len(text)))
		case v.Kind() == reflect.String:
			v.SetString(text)
		}
	}
}
