package main

import (
	"testing"

	"holon/runner/control/wire"
	"holon/state"
	"holon/test/expect"
)

// What a daemon elsewhere refuses is named by the option that was given for it.
func TestElsewhere(t *testing.T) {
	t.Parallel()
	refused := &state.Error{Code: wire.CodeUnauthorized, Param: "Authorization", Message: "wrong"}
	for want, o := range map[string]*tuiOptions{"--token": {token: "x"}, "--token-file": {tokenFile: "f"}} {
		e, _ := o.elsewhere(refused).(*state.Error)
		expect.Equal(t, "parameter", e.Param, want)
	}
	if (&tuiOptions{}).elsewhere(nil) != nil {
		t.Error("no error became one")
	}
}
