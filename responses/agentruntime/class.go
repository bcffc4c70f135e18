package agentruntime

import (
	"regexp"
	"slices"
	"strings"
)

// Class is a kind of event: which ids it must carry next to the runtime and the session.
type Class struct {
	Name string
	Core bool
	IDs  []ID
}

var vendorName = regexp.MustCompile(`^holon\.[a-z0-9_]+(\.[a-z0-9_]+)*$`)

// IsVendor reports whether a type is one of ours that no portable reader has to understand.
func IsVendor(name string) bool { return vendorName.MatchString(name) }

// Classes returns the normalized classes, the core ones first.
func Classes() []Class {
	var all []Class
	for _, table := range []struct {
		text string
		core bool
	}{{coreClasses, true}, {extendedClasses, false}} {
		for line := range strings.Lines(table.text) {
			words := strings.Fields(line)
			c := Class{Name: words[0], Core: table.core}
			for _, short := range words[1:] {
				c.IDs = append(c.IDs, shortIDs[short])
			}
			all = append(all, c)
		}
	}
	return all
}

var classByName = func() map[string]Class {
	m := map[string]Class{}
	for _, c := range Classes() {
		m[c.Name] = c
	}
	return m
}()

// ClassOf returns the normalized class of that name.
func ClassOf(name string) (Class, bool) {
	c, ok := classByName[name]
	return c, ok
}

// Missing returns the ids that the class of the event demands and the event lacks.
func (e *Event) Missing() []ID {
	need := []ID{Runtime, Session}
	if strings.HasPrefix(e.Type, "runtime.") {
		need = need[:1] // a warning of the whole runtime belongs to no session
	}
	need = append(need, classByName[e.Type].IDs...)
	return slices.DeleteFunc(need, func(id ID) bool { return e.IDs[id] != "" })
}

// shortIDs are the abbreviations in the tables below.
var shortIDs = map[string]ID{"Th": Thread, "Tu": Turn, "Ta": Task, "Ru": Run, "St": Step, "TC": ToolCall, "Ac": Action,
	"Sa": Subagent, "Pr": Process, "MR": ModelRequest, "Qu": Queue, "Ch": Channel, "Jo": Job, "JI": JobItem,
	"Ar": Artifact, "Ev": Evidence}
