package settings

import (
	"maps"
	"reflect"
	"slices"
	"strings"

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

// lookup finds the key or group of a path, and the name that its "*" stands for.
func lookup(path []string) (k *key, name string, found match) {
	for _, candidate := range keys() {
		pattern := candidate.segments()
		if len(path) > len(pattern) {
			continue
		}
		name := ""
		fits := true
		for i, segment := range path {
			if pattern[i] == "*" {
				name = segment
			} else if pattern[i] != segment {
				fits = false
				break
			}
		}
		if !fits {
			continue
		}
		if name != "" && !validName(candidate.group(), name) {
			return nil, name, matchBadName
		}
		if len(path) == len(pattern) {
			return candidate, name, matchKey
		}
		found = matchGroup
	}
	return nil, "", found
}

func validName(g group, name string) bool {
	if g == ofModel {
		what, _ := checkRef(name)
		return what == ""
	}
	return providers.ValidName(name) && name != providers.Scripted
}

// split takes a key that a person wrote apart. The names of providers and models
// may hold dots, so the table says where one ends: the longest rest counts.
func split(text string) []string {
	if rest, ok := strings.CutPrefix(text, "providers."); ok {
		return append([]string{"providers"}, splitNamed(rest, ofProvider)...)
	}
	if rest, ok := strings.CutPrefix(text, "models.catalog."); ok {
		return append([]string{"models", "catalog"}, splitNamed(rest, ofModel)...)
	}
	return strings.Split(text, ".")
}

func splitNamed(rest string, g group) []string {
	best := []string{rest}
	for _, k := range keys() {
		if k.group() != g {
			continue
		}
		_, tail, _ := strings.Cut(k.name, "*")
		for tail != "" { // groups within the entry too
			if name, ok := strings.CutSuffix(rest, tail); ok && name != "" {
				if parts := append([]string{name}, strings.Split(tail[1:], ".")...); len(parts) > len(best) {
					best = parts
				}
			}
			tail = tail[:strings.LastIndexByte(tail, '.')]
		}
	}
	return best
}

// nearest returns the remedy for an unknown key: the one that was probably meant.
func nearest(path []string) string {
	text := strings.Join(path, ".")
	if segments := split(text); len(segments) > len(path) { // budget.max_tokens: 5
		if _, _, found := lookup(segments); found == matchKey {
			return "nest it: " + strings.Join(segments, ": {") + ": …" + strings.Repeat("}", len(segments)-1)
		}
	}
	// A key that lost its groups: max_tokens for budget.max_tokens, which lost the fewest.
	full := ""
	for _, k := range keys() {
		if strings.HasSuffix(k.name, "."+text) &&
			(full == "" || strings.Count(k.name, ".") < strings.Count(full, ".")) {
			full = k.name
		}
	}
	if full != "" {
		return "write " + full
	}
	best, least := "", len(text)/2+1
	for _, k := range keys() {
		pattern := k.segments()
		for i := range pattern { // what lies around the "*" is what it was in path
			if pattern[i] == "*" && i < len(path) {
				pattern[i] = path[i]
			}
		}
		candidates := []string{strings.Join(pattern, ".")}
		if len(path) < len(pattern) {
			candidates = append(candidates, strings.Join(pattern[:len(path)], "."))
		}
		for _, c := range candidates {
			if d := distance(text, c); d < least {
				best, least = c, d
			}
		}
	}
	if best == "" {
		return "see holon config schema"
	}
	return "write " + best
}

// distance is that of Levenshtein.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := diagonal
			if a[i] != b[j] {
				cost++
			}
			diagonal = row[j+1]
			row[j+1] = min(cost, row[j]+1, row[j+1]+1)
		}
	}
	return row[len(b)]
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
