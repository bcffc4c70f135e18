package tools

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"holon/test/expect"
)

// foreign is a tool whose schema is another party's.
type foreign struct{ def Definition }

func (f foreign) Definition() Definition { return f.def }

func (f foreign) Run(_ context.Context, _ Env, call Call) Output {
	return Output{Summary: "took " + string(call.Arguments), Result: echoResult{}}
}

// Tools of another party have schemas that ours may not have, and only it
// checks arguments against them.
func TestForeignTools(t *testing.T) {
	own := newRegistry(t)
	open := json.RawMessage(`{"type":"object","properties":{"x":{"type":"array"}},"additionalProperties":true}`)
	if _, err := own.With(foreign{Definition{Name: "C", Parameters: open}}); err == nil {
		t.Error("an open schema of ours was accepted")
	}
	if _, err := own.With(foreign{Definition{Name: "not a name", Parameters: open, Foreign: true}}); err == nil {
		t.Error("a name that no provider takes was accepted")
	}
	all, err := own.With(foreign{Definition{Name: "C", Parameters: open, Foreign: true}},
		foreign{Definition{Name: "Echo", Description: "another", Parameters: open, Foreign: true}})
	expect.NoError(t, err)
	var names []string
	for _, def := range all.Definitions() {
		names = append(names, def.Name)
	}
	switch got := strings.Join(names, " "); {
	case got != "Echo C":
		t.Errorf(`got = %q, want "Echo C"`, got)
	case all.Definitions()[0].Description != "another":
		t.Errorf(`all.Definitions()[0].Description = %q, want "another"`, all.Definitions()[0].Description)
	case own.Definitions()[0].Description == "another":
		t.Error(`own.Definitions()[0].Description = "another", want another value`)
	}
	for args, good := range map[string]bool{`{"x":1,"y":null}`: true, ``: true, `[]`: false, `{"a":1,"a":2}`: false,
		`7`: false} {
		o := all.Run(t.Context(), Env{}, Call{ID: "c", Name: "C", Arguments: json.RawMessage(args)})
		if (o.Canonical.Error == nil) != good {
			t.Errorf("arguments %q: %+v", args, o.Canonical.Error)
		}
		if good && args != "" && o.Canonical.SummaryText != "took "+args {
			t.Errorf("arguments %q became %q", args, o.Canonical.SummaryText)
		}
	}
}
