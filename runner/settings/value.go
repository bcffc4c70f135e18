package settings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/internal/providers"
)

// assign puts a value of a file where the key keeps it. The error says what the
// value is not, and the remedy how to write one.
func (k *key) assign(s *Settings, name string, n node) (what, remedy string) {
	scalar := n.kind == kindString || n.kind == kindNumber
	list, isList := strs(n)
	var ok bool
	switch p := k.field(s, name).(type) {
	case *string:
		ok = scalar
		*p = n.text
		remedy = "write text"
	case *Size:
		ok = scalar
		*p = Size(n.text)
		remedy = "write for example 512m or 4g"
	case *providers.Contract:
		ok = scalar
		*p = providers.Contract(n.text)
		remedy = "write text"
	case *bool:
		ok = assignBool(n, p)
		remedy = "write true or false"
	case *not:
		var v bool
		ok = assignBool(n, &v)
		*p = not(!v)
		remedy = "write true or false"
	case *int:
		v, err := strconv.Atoi(n.text)
		ok = scalar && err == nil
		*p = v
		remedy = "write a whole number"
	case *int64:
		v, err := strconv.ParseInt(n.text, 10, 64)
		ok = scalar && err == nil
		*p = v
		remedy = "write a whole number"
	case *float64:
		v, err := strconv.ParseFloat(n.text, 64)
		ok = scalar && err == nil
		*p = v
		remedy = "write a number such as 1.5"
	case *time.Duration:
		v, err := time.ParseDuration(n.text)
		ok = n.kind == kindString && err == nil
		*p = v
		remedy = "write a duration such as 30m"
	case *Money:
		v, err := ParseMoney(n.text)
		ok = scalar && err == nil
		*p = v
		remedy = "write an amount such as 2.50"
	case **Money:
		v, err := ParseMoney(n.text)
		ok = scalar && err == nil
		*p = &v
		remedy = "write an amount such as 2.50"
	case *[]string:
		ok = isList
		*p = list
		remedy = "write a list of texts"
	}
	if !ok {
		return n.describe(), remedy
	}
	if text := k.text(s, name); k.choices != nil && !slices.Contains(k.choices, text) {
		return fmt.Sprintf("%.100q is unknown", text), "choose " + alternatives(k.choices)
	}
	if k.check != nil {
		return k.check(s, name)
	}
	return "", ""
}

func assignBool(n node, p *bool) bool {
	v, err := strconv.ParseBool(n.text)
	*p = v
	return (n.kind == kindBool || n.kind == kindString) && err == nil
}

// strs returns the items of a list of texts.
func strs(n node) (list []string, ok bool) {
	for _, item := range n.list {
		if item.kind != kindString && item.kind != kindNumber {
			return nil, false
		}
		list = append(list, item.text)
	}
	return list, n.kind == kindList
}

// describe says what a value that does not fit is.
func (n *node) describe() string {
	switch n.kind {
	case kindNull:
		return "has no value"
	case kindList:
		return "cannot be a list"
	case kindObject:
		return "cannot be an object"
	}
	return fmt.Sprintf("%.100q cannot be read", n.text)
}

func alternatives(list []string) string {
	if len(list) == 1 {
		return list[0]
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

// parseText makes a value of what a person writes in a command or a variable.
// Lists are JSON, or texts separated by commas.
func (k *key) parseText(text string) (n node, err error) {
	if _, isList := k.field(new(scratch()), sample(k)).(*[]string); !isList {
		n = node{kind: kindString, text: text}
		return n, nil
	}
	n.kind = kindList
	if strings.HasPrefix(strings.TrimSpace(text), "[") {
		wrapped, err := parseJSON([]byte(`{"v":` + text + `}`))
		if err != nil {
			return n, fmt.Errorf("is no JSON list: %w", err)
		}
		return *wrapped.get("v"), nil
	}
	separated := strings.Split(text, ",")
	if strings.HasSuffix(k.name, ".command") {
		separated = strings.Fields(text)
	}
	for _, item := range separated {
		if item = strings.TrimSpace(item); item != "" {
			n.list = append(n.list, node{kind: kindString, text: item})
		}
	}
	return n, nil
}

// scratch are settings to look at the types of keys with.
func scratch() Settings { return Default() }

// sample is a name that k may be asked about.
func sample(k *key) string {
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
	case *string:
		return *p
	case *Size:
		return string(*p)
	case *providers.Contract:
		return string(*p)
	case *bool:
		return *p
	case *not:
		return !bool(*p)
	case *int:
		return *p
	case *int64:
		return *p
	case *float64:
		return *p
	case *time.Duration:
		return duration(*p)
	case *Money:
		return *p
	case **Money:
		if *p == nil {
			return nil
		}
		return **p
	case *[]string:
		if *p == nil {
			return []string{}
		}
		return *p
	}
	return nil
}

// duration writes 1h instead of 1h0m0s.
func duration(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
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
