package state

import (
	"strings"
	"testing"
)

func TestAgentID(t *testing.T) {
	for id, ok := range map[string]bool{
		"a": true, "default": true, "Dev-2_x": true, "9": true, strings.Repeat("a", 64): true,
		"": false, "-a": false, "_a": false, "a.b": false, "..": false, "a/b": false, "a b": false, "ä": false,
		"a\x00": false, strings.Repeat("a", 65): false,
		"a.b2c4d6": true, "a.b2c4d6.zzzzzz": true, "a.b2c4d6.zzzzzz.zzzzzz": false, "a.B2c4d6": false, ".b2c4d6": false,
		"a.b2c4d6.": false, "a..b2c4d6": false, "a.b2c4/6": false,
	} {
		if err := CheckAgentID(id); (err == nil) != ok || err != nil && !IsCode(err, CodeInvalidAgent) {
			t.Errorf("CheckAgentID(%q) = %v", id, err)
		}
	}
	for id, ok := range map[string]bool{
		"main": true, "a": true, "0": true, "a-b_c9": true, strings.Repeat("a", 63): true,
		"": false, "-a": false, "_a": false, "A": false, "a.b": false, "a/b": false, "ä": false, "..": false,
		"a\x00": false, strings.Repeat("a", 64): false, "a.b2c4d6": false,
	} {
		if err := CheckNewAgentID(id); (err == nil) != ok || err != nil && !IsCode(err, CodeInvalidAgent) {
			t.Errorf("CheckNewAgentID(%q) = %v", id, err)
		}
	}
	if name := NewIPCID(AgentIPC); CheckRunID(name) == nil || strings.HasPrefix(NewRunID(), AgentIPC) {
		t.Errorf("the name %s of a socket directory can be a run's", name)
	}
}
