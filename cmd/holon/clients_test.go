package main

import (
	"testing"

	"holon/responses"
	"holon/runner"
	"holon/runner/pool"
	"holon/runner/settings"
	"holon/state"
	"holon/test/expect"
)

// The file of a script is the operator's choice, in the first turn of a session and in each later one.
func TestClientsChooseNoScript(t *testing.T) {
	o := new(serveOptions)
	o.Loaded = new(settings.Loaded)
	o.Model = "scripted/own.yaml"
	c := &clients{host: &agentHost{options: o}}
	expect.NoError(t, c.checkScript("scripted/own.yaml"))
	expect.NoError(t, c.checkScript("openai/m"))
	_, err := c.model("scripted//etc/passwd")
	expect.Equal(t, "the first", state.IsCode(err, responses.CodeModelNotFound), true)
	_, _, err = c.configure(t.Context(), pool.Turn{Turn: runner.NewTurn("turn_1", ""), Model: "scripted//etc/passwd"})
	expect.Equal(t, "a later one", state.IsCode(err, responses.CodeModelNotFound), true)
}
