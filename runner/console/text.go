package console

import (
	"encoding/json"
	"html/template"
	"maps"
	"slices"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/responses/turns"
)

// functions are what templates call. Each makes text of others harmless.
var functions = template.FuncMap{
	"text":       visible.Text,
	"line":       func(s any) string { return visible.OneLine(textOf(s), 300) },
	"words":      func(s any) string { return strings.ReplaceAll(visible.OneLine(textOf(s), 300), "_", " ") },
	"class":      class,
	"markdown":   markdown,
	"unenforced": unenforced,
	"size":       visible.Size,
	"when":       when,
	"iso":        func(t any) string { return timeOf(t).Format("2006-01-02T15:04:05.000Z07:00") },
	"duration": func(ms int64) string {
		d := time.Duration(ms) * time.Millisecond
		if d > time.Second {
			d = d.Round(10 * time.Millisecond)
		}
		return d.String()
	},
	"join":   func(list []string) string { return visible.OneLine(strings.Join(list, ", "), 1000) },
	"tabs":   func() []tab { return tabs },
	"modes":  func() []string { return []string{"info", "verbose", "debug"} },
	"indent": indent,
}

// tab is a page of an agent.
type tab struct{ Name, Path string }

var tabs = []tab{{"Conversation", ""}, {"Queue", "queue"}, {"Work items", "work"}, {"Tasks", "tasks"},
	{"Children", "children"}, {"Workspaces", "workspaces"}, {"Events", "events"}, {"Usage", "usage"},
	{"Debug", "debug"}}

// textOf is a value that is a text of some type.
func textOf(v any) string {
	if s, ok := v.(string); ok {
		return s
	}
	text, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.Trim(string(text), `"`)
}

// class is a word of ours as a part of a class in a page, and other for what is none.
func class(v any) string {
	word := textOf(v)
	if strings.ContainsFunc(word, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
		return "other"
	}
	return word
}

// unenforced are the boundaries of an agent's isolation that nothing enforces.
func unenforced(boundaries map[string]string) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(boundaries)) {
		if boundaries[name] == "not_enforced" {
			list = append(list, strings.ReplaceAll(name, "_", " "))
		}
	}
	return visible.OneLine(strings.Join(list, ", "), 300)
}

func timeOf(v any) time.Time {
	switch t := v.(type) {
	case time.Time:
		return t.UTC()
	case *time.Time:
		if t != nil {
			return t.UTC()
		}
	case turns.Time:
		return t.Time()
	}
	return time.Time{}
}

// when is a time of the host for a person, "" for none.
func when(v any) string {
	if t := timeOf(v); !t.IsZero() {
		return t.Local().Format("02 Jan 15:04:05")
	}
	return ""
}

func indent(raw json.RawMessage) string {
	text, err := json.MarshalIndent(raw, "", "  ")
	if err != nil {
		return ""
	}
	return visible.Text(string(text))
}
