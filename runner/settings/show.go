package settings

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"holon/internal/pattern"
	"holon/internal/providers"
	"holon/state"
)

// Entry is the effective value of a setting and its origin.
type Entry struct {
	Key    string `json:"key"`
	Value  any    `json:"value"`
	Origin origin `json:"origin"`
	// InForce is what holds, of a key that has a default in words ("all", "no bound"): its value, or else those words.
	InForce string `json:"in_force,omitempty"`
}

// Text is the value that is in force, as a person reads it.
func (e Entry) Text() string {
	if emptyValue(e.Value) && e.InForce != "" {
		return e.InForce
	}
	return Text(e.Value)
}

// byDefault is how the description of a key says what holds without a value: at its end, before its variable and what a
// project may set.
var byDefault = pattern.Lazy(`(?:[;,] |^)([^;,]+) by default\.(?: A duration .*| Variable.*| A project .*)?$`)

// inForce is what holds of a key with that value, "" where nothing is said of its default.
func (k *key) inForce(value any) string {
	if m := byDefault().FindStringSubmatch(k.doc); m != nil {
		if !emptyValue(value) {
			return Text(value)
		}
		return m[1]
	}
	return ""
}

// CodeUnknownKey is the code of errors about keys that are not in the table.
const CodeUnknownKey state.Code = "unknown_key"

// All returns every setting, also those without a value, in the order of the table; of providers and models those that
// are set.
func (l *Loaded) All() (list []Entry) {
	for _, k := range keys() {
		for _, name := range l.namesOf(k) {
			if _, set := l.origins[k.full(name)]; set || k.group() == plain {
				list = append(list, l.entry(&l.Settings, k, name))
			}
		}
	}
	return list
}

func (l *Loaded) entry(s *Settings, k *key, name string) Entry {
	value := shown(k.value(s, name))
	return Entry{k.full(name), value, l.Origin(k.full(name)), k.inForce(value)}
}

// namesOf returns what a key's "*" stands for, "" for a key without.
func (l *Loaded) namesOf(k *key) []string {
	switch k.group() {
	case ofProvider:
		return SortedKeys(l.Providers)
	case ofModel:
		return SortedKeys(l.Catalog)
	}
	return []string{""}
}

func emptyValue(v any) bool {
	switch v := v.(type) {
	case bool: // which always has a value
		return false
	case []string:
		return len(v) == 0
	}
	return v == nil || v == "0s" || reflect.ValueOf(v).IsZero()
}

// Get returns a setting, or all below a group such as "budgets" or "providers.acme", of which each has what All has.
// Errors have the code CodeUnknownKey.
func (l *Loaded) Get(text string) (list []Entry, err error) {
	path := split(text)
	k, name, found := lookup(path)
	switch found {
	case matchKey:
		copied := l.clone() // reading a provider's key creates an entry
		return []Entry{l.entry(&copied, k, name)}, nil
	case matchGroup:
		list = []Entry{}
		for _, e := range l.All() {
			if strings.HasPrefix(e.Key, text+".") {
				list = append(list, e)
			}
		}
		if perhaps := strings.Split(text, "."); len(list) == 0 && len(perhaps) > 2 { // a key of a provider, misspelt
			return nil, unknownKey(text, perhaps, matchNone)
		}
		return list, nil
	}
	return nil, unknownKey(text, path, found)
}

func unknownKey(text string, path []string, found match) error {
	if found == matchBadName {
		return &state.Error{Code: CodeUnknownKey, Param: "KEY",
			Message: fmt.Sprintf("%.100q has no valid name of a provider or model in it", text),
			Hint:    "write providers.NAME.… or models.catalog.PROVIDER/MODEL.…"}
	}
	return &state.Error{Code: CodeUnknownKey, Param: "KEY", Message: fmt.Sprintf("%.100q is not a setting", text),
		Hint: nearest(path)}
}

func (s *Settings) clone() Settings {
	c := *s
	c.Providers, c.Catalog = maps.Clone(s.Providers), maps.Clone(s.Catalog)
	return c
}

// origin returns where the value of a key comes from.
func (l *Loaded) Origin(key string) origin {
	if origin, ok := l.origins[key]; ok {
		return origin
	}
	return origin{Layer: LayerDefault}
}

// Override sets a key to the value of a flag: one text, or the items of a list. The error names the flag.
func (l *Loaded) Override(key, flag string, values ...string) error {
	k, name, found := lookup(split(key))
	if found != matchKey {
		return unknownKey(key, split(key), found)
	}
	origin := origin{LayerFlag, flag}
	n := listNode(values)
	if !k.isList() {
		n = textNode(strings.Join(values, ","))
	}
	if what, remedy := l.set(origin, k, name, n); what != "" {
		l.origins[k.full(name)] = origin // it is what has to be mended, whatever it outweighs
		return invalidSetting{Origin: origin, Key: k.full(name), What: what, Remedy: remedy}.Err()
	}
	l.Consider(l.Refs()...) // the model may have a provider that no source has named yet
	return nil
}

// Hidden returns the values that a layer of higher precedence overrides, for the doctor.
func (l *Loaded) Hidden() (list []Entry) {
	for _, a := range l.assignments {
		full := a.key.full(a.name)
		if winner := l.origins[full]; winner != a.origin && a.text != a.key.text(&l.Settings, a.name) {
			list = append(list, Entry{Key: full, Value: a.text, Origin: a.origin})
		}
	}
	return list
}

// ProvidersOf returns the providers of models, in order and once each, without that of scenarios.
func ProvidersOf(refs []string) (names []string) {
	for _, ref := range refs {
		if name, _, ok := providers.SplitRef(ref); ok && name != providers.Scripted && !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return names
}
