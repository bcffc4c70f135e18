package settings

import (
	"encoding"
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
)

// parse returns the value of the key that a source has. what says why it is not accepted, remedy how to write one.
func (k *key) parse(n *yaml.Node) (v reflect.Value, what, remedy string) {
	v = reflect.New(k.typ).Elem()
	if !decode(v, n) {
		return v, describe(n), example(v)
	}
	if what, remedy := k.inRange(v); what != "" {
		return v, what, remedy
	}
	if text := Text(shown(v)); k.choices != nil && !slices.Contains(k.choices, text) {
		return v, fmt.Sprintf("%.100q is unknown", text), "choose " + alternatives(k.choices)
	}
	what, remedy = k.check(v)
	return v, what, remedy
}

// inRange refuses whole numbers and durations that are not positive, or negative where 0 is a value.
func (k *key) inRange(v reflect.Value) (what, remedy string) {
	switch v.Interface().(type) {
	case int, int64, time.Duration:
	default:
		return "", ""
	}
	switch {
	case k.zero && v.Int() < 0:
		return "is negative", "leave it out for the default, or write 0"
	case !k.zero && v.Int() <= 0:
		return "is not positive", "leave it out for the default"
	}
	return "", ""
}

// decode stores a value in a field and reports whether it has the field's type.
func decode(v reflect.Value, n *yaml.Node) (ok bool) {
	scalar := isText(n) || isNumber(n)
	var err error
	switch p := v.Addr().Interface().(type) {
	case *time.Duration:
		*p, err = duration.Parse(n.Value)
		return isText(n) && err == nil
	case *[]string:
		*p, ok = texts(n)
		return ok
	case **Money:
		*p = new(Money)
		return scalar && (*p).UnmarshalText([]byte(n.Value)) == nil
	case encoding.TextUnmarshaler:
		return scalar && p.UnmarshalText([]byte(n.Value)) == nil
	case *bool:
		*p, err = strconv.ParseBool(n.Value)
		return (isText(n) || scalarTag(n) == "!!bool") && err == nil
	case *float64:
		*p, err = strconv.ParseFloat(n.Value, 64)
	default:
		err = setBasic(v, n.Value)
	}
	return scalar && err == nil
}

// setBasic stores text in a field of a string or integer kind.
func setBasic(v reflect.Value, text string) error {
	if v.Kind() == reflect.String {
		v.SetString(text)
		return nil
	}
	whole, err := strconv.ParseInt(text, 10, 64)
	v.SetInt(whole)
	return err
}

// example says how to write a value of a field's type.
func example(v reflect.Value) string {
	switch v.Interface().(type) {
	case bool:
		return "write true or false"
	case int, int64:
		return "write a whole number"
	case float64:
		return "write a number such as 1.5"
	case time.Duration:
		return "write a duration such as 30m"
	case Money, *Money:
		return "write an amount such as 2.50"
	case Size:
		return "write for example 512m or 4g"
	case []string:
		return "write a list of texts"
	}
	return "write text"
}

// texts returns the items of a list of strings.
func texts(n *yaml.Node) (list []string, ok bool) {
	for _, item := range n.Content {
		if !isText(item) && !isNumber(item) {
			return nil, false
		}
		list = append(list, item.Value)
	}
	return list, n.Kind == yaml.SequenceNode
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
		var list []string
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			return nil, errors.New("is not a JSON list of texts")
		}
		return listNode(list), nil
	}
	if k.name == "services" { // one has commas of its own
		return listNode([]string{text}), nil
	}
	if strings.HasSuffix(k.name, ".command") {
		return listNode(strings.Fields(text)), nil
	}
	list := strings.Split(text, ",")
	for i := range list {
		list[i] = strings.TrimSpace(list[i])
	}
	return listNode(slices.DeleteFunc(list, func(item string) bool { return item == "" })), nil
}

// shown returns a value as JSON shows it.
func shown(v reflect.Value) any {
	switch p := v.Interface().(type) {
	case time.Duration:
		return duration.Text(p)
	case *Money:
		if p == nil {
			return nil
		}
		return *p
	case []string:
		return append([]string{}, p...)
	}
	if v.Kind() == reflect.String {
		return v.String()
	}
	return v.Interface()
}

// text returns what a key holds as a person writes it.
func (k *key) text(s *Settings, name string) string { return Text(shown(k.value(s, name))) }

// Text returns a value as a person writes it: texts as they are, all else as JSON.
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
