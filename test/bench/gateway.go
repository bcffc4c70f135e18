package main

import (
	"context"
	"net/http"
	"path/filepath"

	"holon/runner/gateway"
	"holon/test/load"
)

// measureGateway is P22: what the model gateway adds to a small stream, against the model asked directly over TCP. The
// gateway runs in this process, as it does in holon's, and meters as it does for runs.
func measureGateway(ctx context.Context, r *rig) []row {
	const model = "fake-1"
	socket := filepath.Join(r.newDir(), "model.sock")
	gateways := load.Must(r.newGateway().Serve(ctx, socket))
	r.later(func() error { return gateways.Close(context.Background()) }) // also when the run was interrupted
	token, hash := gateway.NewToken()
	load.Must(gateways.Grant(gateway.Grant{TurnID: "turn_bench", Token: hash, Models: []string{"openai/" + model},
		Budget: gateway.Budget{MaxTokens: 1 << 40}}))
	through := r.at(socket, "http://model/openai")
	through.token = token.Reveal()
	direct := r.at("", r.model)
	direct.client = &http.Client{Transport: &http.Transport{DisableCompression: true}}
	got := compare(ctx, r.plan(2000, 60, 10), direct.streamer(model), through.streamer(model))
	return []row{versus("P22", "a small stream through the gateway → first event", "the model, directly", unitMS,
		got[1][0], got[0][0])}
}
