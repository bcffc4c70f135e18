package turns

import (
	"encoding/json"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxName bounds a text, in bytes of its JSON. A field that may have another bound has it as its tag max; a field of
// JSON that is longer is left out. The tag most bounds the elements of a list. Together they keep every payload of this
// package below maxPayload.
const maxName = 256

// bounded returns a copy of v whose texts are cut and whose lists are shortened.
func bounded[T any](v T) T {
	bound(reflect.ValueOf(&v).Elem(), maxName)
	return v
}

func bound(v reflect.Value, limit int) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		inner := reflect.New(v.Elem().Type()).Elem()
		inner.Set(v.Elem())
		bound(inner, limit)
		if v.Kind() == reflect.Pointer {
			inner = inner.Addr()
		}
		v.Set(inner)
	case reflect.Struct:
		for i := range v.NumField() {
			boundField(v.Field(i), v.Type().Field(i))
		}
	case reflect.Slice:
		if kind := v.Type().Elem().Kind(); kind != reflect.String && kind != reflect.Struct || v.IsNil() {
			return
		}
		list := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(list, v)
		for i := range list.Len() {
			bound(list.Index(i), limit)
		}
		v.Set(list)
	case reflect.String:
		v.SetString(clip(v.String(), limit))
	}
}

func boundField(v reflect.Value, field reflect.StructField) {
	if !field.IsExported() {
		return
	}
	if most, err := strconv.Atoi(field.Tag.Get("most")); err == nil && v.Len() > most {
		v.SetLen(most)
	}
	limit, err := strconv.Atoi(field.Tag.Get("max"))
	switch {
	case err != nil:
		limit = maxName
	case v.Type() == reflect.TypeFor[json.RawMessage]() && v.Len() > limit:
		v.SetZero() // half of it would not be JSON
	}
	bound(v, limit)
}

// clip cuts s to text whose JSON form has at most n bytes, at a character
// boundary, and marks the cut. It counts encoded bytes because a payload of
// control characters grows sixfold when it is escaped.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\uFFFD")
	size := 0
	for i, r := range s {
		if size += encodedLen(r); size > n {
			return s[:i] + "…"
		}
	}
	return s
}

func encodedLen(r rune) int {
	switch {
	case r == '"' || r == '\\' || r == '\n' || r == '\r' || r == '\t' || r == '\b' || r == '\f':
		return 2
	case r < 0x20 || r == '\u2028' || r == '\u2029':
		return 6
	}
	return utf8.RuneLen(r)
}
