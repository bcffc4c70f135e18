package runner

import (
	"testing"

	"holon/responses/turns"
)

// A scenario is known by the user's name, wherever its copy is.
func TestFactsNameTheScenarioOfTheUser(t *testing.T) {
	for _, tt := range []struct{ class, model, payload, want string }{
		{turns.ModelRequested, "scripted//home/ann/a \"b\".yaml",
			`{"provider_name":"scripted","model_name":"/holon/host/scenario.yaml",` +
				`"provider_selector":"scripted//run/ipc/a-66/host/scenario.yaml"}`,
			`{"provider_name":"scripted","model_name":"/home/ann/a \"b\".yaml",` +
				`"provider_selector":"scripted//home/ann/a \"b\".yaml"}`},
		{turns.ModelFailed, "scripted/s.yaml", `{"message":"see \"/holon/host/scenario.yaml\""}`,
			`{"message":"see \"/holon/host/scenario.yaml\""}`},
		{turns.ModelRequested, "p/m", `{"model_name":"/holon/host/scenario.yaml"}`,
			`{"model_name":"/holon/host/scenario.yaml"}`},
		{turns.ToolResult, "scripted/s.yaml", `{"preview":"/holon/host/scenario.yaml"}`,
			`{"preview":"/holon/host/scenario.yaml"}`},
	} {
		got := Named(turns.RuntimeEvent{Type: tt.class, Payload: []byte(tt.payload)}, tt.model).Payload
		if string(got) != tt.want {
			t.Errorf("%s of %s: %s\nwant %s", tt.class, tt.model, got, tt.want)
		}
	}
}
