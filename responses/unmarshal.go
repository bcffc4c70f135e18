package responses

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
)

// unmarshal is json.Unmarshal for text from outside, in two ways stricter to itself:
// a member counts only if it has exactly the name of a field, where encoding/json takes
// INPUT for input, and the error of a value of a wrong type names the place with the
// indices of lists.
func unmarshal(data []byte, v any) error {
	if hasOddName(data) {
		data = dropFolded(data, reflect.TypeOf(v).Elem())
	}
	err := json.Unmarshal(data, v)
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok && t.Offset >= 0 {
		t.Field, t.Offset = placeOf(data, t.Offset), -1 // the place is known, whoever decodes around this
	}
	return err
}

// hasOddName reports whether a member of any object has a name that may differ from
// the name of a field in its case only.
func hasOddName(data []byte) bool {
	for {
		open := bytes.IndexByte(data, '"')
		if open < 0 {
			return false
		}
		data = data[open+1:]
		end := bytes.IndexByte(data, '"')
		for end > 0 && escaped(data[:end]) {
			next := bytes.IndexByte(data[end+1:], '"')
			if next < 0 {
				return false // malformed, as json.Unmarshal will say
			}
			end += 1 + next
		}
		if end < 0 {
			return false // as above
		}
		name := data[:end]
		data = bytes.TrimLeft(data[end+1:], " \t\r\n")
		if len(data) > 0 && data[0] == ':' && bytes.ContainsFunc(name, func(r rune) bool {
			return r == '\\' || 'A' <= r && r <= 'Z' || r > 127
		}) {
			return true
		}
	}
}

// escaped reports whether a quote after text belongs to the string: an odd number of
// backslashes is before it.
func escaped(text []byte) bool {
	return (len(text)-len(bytes.TrimRight(text, `\`)))%2 == 1
}

var unmarshaler = reflect.TypeFor[json.Unmarshaler]()

// dropFolded returns data for a value of type t without the members whose names differ
// from those of fields in case only. Types that decode themselves see to it themselves.
func dropFolded(data []byte, t reflect.Type) []byte {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if t.Implements(unmarshaler) || reflect.PointerTo(t).Implements(unmarshaler) {
		return data
	}
	switch t.Kind() {
	case reflect.Struct:
		return dropMembers(data, t)
	case reflect.Slice:
		var list []json.RawMessage
		if json.Unmarshal(data, &list) != nil {
			return data
		}
		changed := false
		for i, elem := range list {
			list[i] = dropFolded(elem, t.Elem())
			changed = changed || !bytes.Equal(list[i], elem)
		}
		return encodedIf(changed, list, data)
	}
	return data
}

func dropMembers(data []byte, t reflect.Type) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(data, &members) != nil {
		return data
	}
	fields, changed := fieldsOf(t), false
	for name, member := range members {
		if field, ok := fields[name]; ok {
			members[name] = dropFolded(member, field)
			changed = changed || !bytes.Equal(members[name], member)
			continue
		}
		for field := range fields {
			if strings.EqualFold(field, name) {
				delete(members, name)
				changed = true
			}
		}
	}
	return encodedIf(changed, members, data)
}

// fieldsOf returns the types of a struct's fields by their names in JSON.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	fields := make(map[string]reflect.Type)
	for f := range t.Fields() {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" {
			fields[name] = f.Type
		} else if f.IsExported() && name == "" {
			fields[f.Name] = f.Type
		}
	}
	return fields
}

// encodedIf returns the JSON of v if it has changed since it was decoded from data.
func encodedIf(changed bool, v any, data []byte) []byte {
	if !changed {
		return data
	}
	if text, err := marshal(v); err == nil {
		return text
	}
	return data // v was decoded from it, so this does not happen
}

// placeOf names the value of a JSON text that ends, or if it has parts begins, at offset.
func placeOf(data []byte, offset int64) string {
	type level struct {
		list bool
		next int    // index
		name string // of the member, "" before it
	}
	var open []level
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber() // some are too large for others
	for {
		tok, err := dec.Token()
		if err != nil {
			return ""
		}
		var in *level
		if len(open) > 0 {
			in = &open[len(open)-1]
		}
		switch delim, _ := tok.(json.Delim); {
		case delim == '}' || delim == ']':
			open = open[:len(open)-1]
			if len(open) > 0 {
				in = &open[len(open)-1]
				in.next, in.name = in.next+1, ""
			}
			continue
		case in != nil && !in.list && in.name == "":
			in.name = schemaPath("", fmt.Sprint(tok))
			continue
		}
		if dec.InputOffset() >= offset {
			break
		}
		switch tok {
		case json.Delim('{'), json.Delim('['):
			open = append(open, level{list: tok == json.Delim('[')})
		default:
			if in != nil {
				in.next, in.name = in.next+1, ""
			}
		}
	}
	place := ""
	for _, l := range open {
		if l.list {
			place += fmt.Sprintf("[%d]", l.next)
		} else {
			place = joinPath(place, l.name)
		}
	}
	return place
}
