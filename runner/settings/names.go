package settings

import (
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"holon/internal/providers"
)

// match is the kind of entry in the table that a path names.
type match uint8

const (
	matchNone match = iota
	matchKey
	matchGroup   // keys lie below it
	matchBadName // a key or group with an invalid name of a provider or model
)

// nameAt is where the path of a key has the name of a provider or model, by its first segment.
var nameAt = map[string]int{"providers": 1, "models": 2}

// patternOf returns what a key is called in the table that is at a path, and the name that its "*" stands for.
func patternOf(path []string) (pattern, name string) {
	parts := slices.Clone(path)
	if at := nameAt[path[0]]; at > 0 && at < len(path) {
		name, parts[at] = path[at], "*"
	}
	return strings.Join(parts, "."), name
}

// lookup finds the key or group of a path, and the name that its "*" stands for.
func lookup(path []string) (k *key, name string, found match) {
	pattern, name := patternOf(path)
	if strings.Count(pattern, ".") >= len(path) { // a segment has a dot in it
		return nil, "", matchNone
	}
	for _, candidate := range keys() {
		if candidate.name == pattern {
			k, found = candidate, matchKey
		} else if strings.HasPrefix(candidate.name, pattern+".") {
			found = matchGroup
		}
	}
	if found != matchNone && name != "" && !validName(path[0], name) {
		return nil, name, matchBadName
	}
	return k, name, found
}

func validName(of, name string) bool {
	if of == "models" {
		what, _ := checkRef(name)
		return what == ""
	}
	return providers.ValidName(name) && name != providers.Scripted
}

// split takes a key that a person wrote apart. The names of providers and models may hold dots, so the table says where
// one ends: the shortest name counts.
func split(text string) []string {
	path := strings.Split(text, ".")
	at := nameAt[path[0]]
	for end := at + 1; at > 0 && end <= len(path); end++ {
		joined := slices.Concat(path[:at], []string{strings.Join(path[at:end], ".")}, path[end:])
		if _, _, found := lookup(joined); found == matchKey || found == matchGroup {
			return joined
		}
	}
	return path
}

// nearest returns the remedy for an unknown key: the one that was probably meant.
func nearest(path []string) string {
	text := strings.Join(path, ".")
	if segments := split(text); len(segments) > len(path) { // budgets.run.max_tokens: 5
		if _, _, found := lookup(segments); found == matchKey {
			return "nest it: " + strings.Join(segments, ": {") + ": …" + strings.Repeat("}", len(segments)-1)
		}
	}
	_, name := patternOf(path)
	best, least := "", len(text)/2+1
	for _, k := range keys() {
		parts := k.segments()
		for _, c := range []string{k.full(name),
			strings.Replace(strings.Join(parts[:min(len(parts), len(path))], "."), "*", name, 1)} {
			d := distance(text, c)
			if strings.HasSuffix(c, "."+text) { // it lost its groups, the fewest of which count
				d = strings.Count(c, ".") - 100
			}
			if d < least {
				best, least = c, d
			}
		}
	}
	if best == "" {
		return "see holon config schema"
	}
	return "write " + best
}

// distance is how many characters make one text of the other.
func distance(a, b string) (n int) {
	for _, edit := range udiff.Strings(a, b) {
		n += max(edit.End-edit.Start, len(edit.New))
	}
	return n
}

// SortedKeys returns the keys of a map in order.
func SortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Choices are the only values that a setting takes, nil where there are more or the key is unknown.
func Choices(text string) []string {
	k, _, found := lookup(split(text))
	switch {
	case found != matchKey:
		return nil
	case k.typ.Kind() == reflect.Bool:
		return []string{"true", "false"}
	}
	return k.choices
}
