package main

import (
	"testing"

	"holon/responses"
	"holon/runner"
	"holon/runner/conversation"
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

// A token has half of the places unless the operator says otherwise, and no other bound unless one is set.
func TestTokenLimits(t *testing.T) {
	for _, tc := range []struct {
		max, own, want int
	}{{100, 0, 50}, {3, 0, 1}, {1, 0, 1}, {100, 100, 100}} {
		s := settings.Default()
		s.MaxSessions, s.TokenSessions = tc.max, tc.own
		got, err := tokenLimits(&s)
		expect.NoError(t, err)
		expect.Equal(t, "limits", got, conversation.Limits{Sessions: tc.want})
	}
	s := settings.Default()
	s.TokenTurns, s.TokenTokens, s.TokenCost, s.TokenDisk = 1, 2, 3_000_000, "4k"
	got, err := tokenLimits(&s)
	expect.NoError(t, err)
	expect.Equal(t, "limits", got, conversation.Limits{Sessions: 50, Disk: 4096,
		Owner: conversation.Usage{Turns: 1, Tokens: 2, Cost: 3_000_000}})
}
