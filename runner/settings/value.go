package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"holon/internal/duration"
	"holon/internal/providers"
)

// assign stores a value of a file in the field of the key. what says why the value is not accepted, remedy
// how to write one.
func (k *key) assign(s *Settings, name string, n *yaml.Node) (what, remedy string) {
	field := k.field(s, name)
	ok, remedy := decode(field, n)
	if !ok {
		return describe(n), remedy
	}
	if p, isSize := field.(*Size); isSize {
		if _, err := p.Bytes(); err != nil {
			return fmt.Sprintf("%q is not a size", string(*p)), remedy
		}
	}
	if k.positive && number(field) <= 0 {
		return "is not positive", "leave it out for the default"
	}
	if text := k.text(s, name); k.choices != nil && !slices.Contains(k.choices, text) {
		return fmt.Sprintf("%.100q is unknown", text), "choose " + alternatives(k.choices)
	}
	if k.check != nil {
		return k.check(s, name)
	}
	return "", ""
}

// decode stores a value in a field by the field's type and reports whether it has that type; remedy says how
// to write one.
func decode(field any, n *yaml.Node) (ok bool, remedy string) {
	scalar, logical := isText(n) || isNumber(n), isText(n) || scalarTag(n) == "!!bool"
	switch p := field.(type) {
	case *string:
		return store(p, scalar, n.Value, nil), "write text"
	case *providers.Contract:
		return store(p, scalar, providers.Contract(n.Value), nil), "write text"
	case *Size:
		return store(p, scalar, Size(n.Value), nil), "write for example 512m or 4g"
	case *bool:
		v, err := strconv.ParseBool(n.Value)
		return store(p, logical, v, err), "write true or false"
	case *not:
		v, err := strconv.ParseBool(n.Value)
		return store(p, logical, not(!v), err), "write true or false"
	case *int:
		v, err := strconv.Atoi(n.Value)
		return store(p, scalar, v, err), "write a whole number"
	case *int64:
		v, err := strconv.ParseInt(n.Value, 10, 64)
		return store(p, scalar, v, err), "write a whole number"
	case *float64:
		v, err := strconv.ParseFloat(n.Value, 64)
		return store(p, scalar, v, err), "write a number such as 1.5"
	case *time.Duration:
		v, err := duration.Parse(n.Value)
		return store(p, isText(n), v, err), "write a duration such as 30m"
	case *Money:
		v, err := ParseMoney(n.Value)
		return store(p, scalar, v, err), "write an amount such as 2.50"
	case **Money:
		v, err := ParseMoney(n.Value)
		return store(p, scalar, &v, err), "write an amount such as 2.50"
	case *[]string:
		list, isList := texts(n)
		return store(p, isList, list, nil), "write a list of texts"
	}
	return false, ""
}

// store stores a value and reports whether it came from a node of an accepted kind without an error.
func store[T any](p *T, accepted bool, value T, err error) bool {
	*p = value
	return accepted && err == nil
}

// texts returns the items of a list of strings.
func texts(n *yaml.Node) (list []string, ok bool) {
	if n.Kind != yaml.SequenceNode {
		return nil, false
	}
	for _, item := range n.Content {
		if !isText(item) && !isNumber(item) {
			return nil, false
		}
		list = append(list, item.Value)
	}
	return list, true
}

// describe says why a value has the wrong type.
func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.SequenceNode:
		return "cannot be a list"
	case n.Kind == yaml.MappingNode:
		return "cannot be an object"
	case scalarTag(n) == "!!null":
		return "has no value"
	}
	return fmt.Sprintf("%.100q cannot be read", n.Value)
}

func alternatives(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// parseText makes a value of the text of a command or a variable. A list is written as JSON, or separated by commas.
func (k *key) parseText(text string) (*yaml.Node, error) {
	if !k.isList() {
		return textNode(text), nil
	}
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		if !json.Valid([]byte(text)) {
			return nil, errors.New("is not a JSON list")
		}
		wrapped, err := parseJSON([]byte(`{"v":` + text + `}`))
		if err != nil {
			return nil, fmt.Errorf("is not a JSON list: %w", err)
		}
		return get(wrapped, "v"), nil
	}
	separated := strings.Split(text, ",")
	if strings.HasSuffix(k.name, ".command") {
		separated = strings.Fields(text)
	}
	n := &yaml.Node{Kind: yaml.SequenceNode}
	for _, item := range separated {
		if item = strings.TrimSpace(item); item != "" {
			n.Content = append(n.Content, textNode(item))
		}
	}
	return n, nil
}

// isList reports whether the key holds a list of strings.
func (k *key) isList() bool {
	_, list := k.sample().(*[]string)
	return list
}

// sample returns a pointer of the type of the key's value.
func (k *key) sample() any {
	s := Default()
	return k.field(&s, k.sampleName())
}

// sampleName returns a name that the "*" of the key may stand for, "" without one.
func (k *key) sampleName() string {
	switch k.group() {
	case ofProvider:
		return "x"
	case ofModel:
		return "x/y"
	}
	return ""
}

// value returns what a key holds, as JSON shows it.
func (k *key) value(s *Settings, name string) any {
	switch p := k.field(s, name).(type) {
	case *Size:
		return string(*p)
	case *providers.Contract:
		return string(*p)
	case *not:
		return !bool(*p)
	case *time.Duration:
		return duration.Text(*p)
	case **Money:
		if *p == nil {
			return nil
		}
		return **p
	case *[]string:
		return append([]string{}, *p...)
	default: // a pointer to what JSON shows
		return reflect.ValueOf(p).Elem().Interface()
	}
}

// text returns what a key holds as a person writes it.
func (k *key) text(s *Settings, name string) string {
	return Text(k.value(s, name))
}

// Text returns a value as a person writes it: texts as they are, all else as
// JSON.
func Text(value any) string {
	switch v := value.(type) {
	case nil:
		return ""
	case string:
		return v
	}
	data, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(data)
}
