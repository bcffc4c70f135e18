package agentruntime

import (
	"slices"
	"strings"
	"sync"

	"holon/internal/pattern"
)

// class is a kind of event: which ids it must carry next to the runtime and the session, which texts, and which fields.
type class struct {
	Name   string
	Core   bool
	IDs    []ID
	Texts  []text
	Fields []string // other keys that its payload must have
}

// text is a text that an event must carry, its status or a key of its payload, and the words that it may be.
type text struct {
	Key      string
	Words    []string
	Optional bool // it may be left out
}

var vendorName = pattern.Lazy(`^holon\.[a-z0-9_]+(\.[a-z0-9_]+)*$`)

// IsVendor reports whether a type is one of ours that no portable reader has to understand.
func IsVendor(name string) bool { return vendorName().MatchString(name) }

// classes returns the normalized classes, the core ones first.
func classes() []class {
	var all []class
	for _, table := range []struct {
		text string
		core bool
	}{{coreClasses, true}, {extendedClasses, false}} {
		for line := range strings.Lines(table.text) {
			words := strings.Fields(line)
			if len(all) == 0 || all[len(all)-1].Name != words[0] { // a class may go on in another line
				all = append(all, class{Name: words[0], Core: table.core})
			}
			c := &all[len(all)-1]
			for _, word := range words[1:] {
				if key, list, ok := strings.Cut(word, "="); ok {
					key, optional := strings.CutSuffix(key, "?")
					c.Texts = append(c.Texts, text{key, strings.Split(list, "|"), optional})
				} else if id, ok := shortIDs[word]; ok {
					c.IDs = append(c.IDs, id)
				} else {
					c.Fields = append(c.Fields, word)
				}
			}
		}
	}
	return all
}

var classByName = sync.OnceValue(func() map[string]class {
	m := map[string]class{}
	for _, c := range classes() {
		m[c.Name] = c
	}
	return m
})

// IsClass reports whether a type is a normalized class.
func IsClass(name string) bool {
	_, ok := classByName()[name]
	return ok
}

// Missing returns the ids that the class of the event demands and the event lacks.
func (e *Event) Missing() []ID {
	need := []ID{Runtime, Session}
	if strings.HasPrefix(e.Type, "runtime.") {
		need = need[:1] // a warning of the whole runtime belongs to no session
	}
	need = append(need, classByName()[e.Type].IDs...)
	return slices.DeleteFunc(need, func(id ID) bool { return e.IDs[id] != "" })
}

// shortIDs are the abbreviations in the tables below.
var shortIDs = map[string]ID{"Th": Thread, "Tu": Turn, "Ta": Task, "Ru": Run, "St": Step, "TC": ToolCall, "Ac": Action,
	"Sa": Subagent, "Pr": Process, "MR": ModelRequest, "Qu": Queue, "Ch": Channel, "Jo": jobID, "JI": jobItemID,
	"Ar": Artifact, "Ev": Evidence}
