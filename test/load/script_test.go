package load

import (
	"encoding/json"
	"slices"
	"testing"

	"holon/runner/agent/tools"
	"holon/test/expect"
)

// The script calls tools that an agent has, by the names that it has them under,
// and does all that words ask for.
func TestScriptNamesTools(t *testing.T) {
	data, err := script()
	var all any
	if err == nil {
		err = json.Unmarshal(data, &all)
	}
	expect.NoError(t, err)
	known := []string{"ExecCommand"}
	for _, tool := range tools.New(tools.Options{}) {
		known = append(known, tool.Name)
	}
	named := toolsIn(all)
	for _, name := range named {
		if !slices.Contains(known, name) {
			t.Errorf("tool %s is unknown", name)
		}
	}
	for _, name := range []string{"ExecCommand", tools.NameSleep, tools.NameEnqueue, tools.NameCreateWork,
		tools.NamePickWork, tools.NameUpdateWork, tools.NameCompleteWork} {
		if !slices.Contains(named, name) {
			t.Errorf("%s is never called", name)
		}
	}
}

// toolsIn are the names of the tools that a scenario calls.
func toolsIn(v any) (names []string) {
	switch v := v.(type) {
	case map[string]any:
		if name, ok := v["tool"].(string); ok {
			names = append(names, name)
		}
		for _, e := range v {
			names = append(names, toolsIn(e)...)
		}
	case []any:
		for _, e := range v {
			names = append(names, toolsIn(e)...)
		}
	}
	return names
}
