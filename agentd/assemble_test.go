package agentd

import (
	"encoding/json"
	"slices"
	"testing"

	"holon/agentd/config"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
)

// all is the container's whole set of tools.
func all(t *testing.T, cfg config.Config) *tools.Registry {
	t.Helper()
	sup := process.New(process.Options{})
	managed := tasks.New(tasks.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := managed.Close(); err != nil {
			t.Error(err)
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := toolset(cfg, sup, managed)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Every tool can be offered in both modes, and what a strict provider makes of
// its schema is accepted: the rules are those of the strict mode of function
// tools.
func TestEverySchemaHasAStrictForm(t *testing.T) {
	t.Parallel()
	for _, def := range all(t, config.Default()).Definitions() {
		if def.Description == "" || len(def.Description) > 1500 {
			t.Errorf("%s: description of %d bytes", def.Name, len(def.Description))
		}
		strict, err := def.StrictParameters()
		if err != nil {
			t.Fatal(err)
		}
		for i, raw := range []json.RawMessage{def.Parameters, strict} {
			var schema map[string]any
			if err := json.Unmarshal(raw, &schema); err != nil {
				t.Fatal(err)
			}
			if schema["type"] != "object" {
				t.Errorf("%s: type %v", def.Name, schema["type"])
			}
			checkSchema(t, def.Name, schema, i == 1, 1)
		}
	}
}

func checkSchema(t *testing.T, at string, s map[string]any, strict bool, depth int) {
	t.Helper()
	strictKeys := []string{"type", "description", "enum", "const", "properties", "required", "additionalProperties",
		"items", "pattern", "format",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minItems", "maxItems"}
	for key := range s {
		if strict && !slices.Contains(strictKeys, key) {
			t.Errorf("%s: keyword %q", at, key)
		}
	}
	if depth > 5 {
		t.Errorf("%s: nested too deeply", at)
	}
	if kinds, ok := s["type"].([]any); ok {
		if enum, has := s["enum"].([]any); has && slices.Contains(kinds, any("null")) != slices.Contains(enum, nil) {
			t.Errorf("%s: null is a type or a value, not both: %v %v", at, kinds, enum)
		}
	}
	if items, ok := s["items"].(map[string]any); ok {
		checkSchema(t, at+"[]", items, strict, depth+1)
	}
	props, isObject := s["properties"].(map[string]any)
	if s["type"] != "object" && !isObject {
		return
	}
	if s["additionalProperties"] != false {
		t.Errorf("%s: open object", at)
	}
	required, _ := s["required"].([]any)
	if props == nil {
		t.Errorf("%s: the object has no properties, not even none", at)
	}
	if strict && len(required) != len(props) {
		t.Errorf("%s: %d of %d properties are required", at, len(required), len(props))
	}
	for name, p := range props {
		prop, ok := p.(map[string]any)
		if !ok || prop["description"] == nil {
			t.Errorf("%s.%s: no description", at, name)
			continue
		}
		checkSchema(t, at+"."+name, prop, strict, depth+1)
	}
}

func TestProfile(t *testing.T) {
	t.Parallel()
	names := func(r *tools.Registry) (list []string) {
		for _, d := range r.Definitions() {
			list = append(list, d.Name)
		}
		return list
	}
	whole := []string{"ExecCommand", "ExecCommandBatch", "TaskList", "TaskStatus", "TaskOutput", "TaskInput",
		"TaskStop", "ApplyPatch", "ViewImage"}
	if got := names(all(t, config.Default())); !slices.Equal(got, whole) {
		t.Errorf("tools %v", got)
	}
	cfg := config.Default()
	cfg.Tools.Names = " ApplyPatch, ExecCommand "
	if got := names(all(t, cfg)); !slices.Equal(got, []string{"ExecCommand", "ApplyPatch"}) {
		t.Errorf("tools %v", got)
	}
	cfg.Tools.Names = "ApplyPatch,Shell"
	if _, err := toolset(cfg, nil, nil); err == nil {
		t.Error("an unknown tool is accepted")
	}
}
