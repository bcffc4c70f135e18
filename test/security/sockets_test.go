package security

import (
	"os"
	"path/filepath"
	"testing"

	"holon/runner"
	"holon/runner/gateway"
)

const askForNote = `
rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: /holon/input/probe sockets, yield_time_ms: 180000}}]
  - calls: [{tool: turn_note, arguments: {text: by the model}}]
  - text: Done.
`

// The sockets between agentd and the host are theirs: a command can neither replace
// one of the host's nor be answered on any, and what the model calls goes through.
func TestSockets(t *testing.T) {
	l := newLab(t)
	g, err := gateway.New(gateway.Options{Providers: map[string]gateway.Provider{"openai": {
		BaseURL: "http://127.0.0.1:9", Credential: gateway.NewSecret("sk-lab-0123456789abcdef"), Routes: []gateway.Route{{Method: "POST", Path: "/responses"}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	r := l.attack(func(o *runner.OneShot) {
		o.Session.Gateway, o.Session.Scenario = g, filepath.Join(filepath.Dir(l.home), "note.yaml")
		if err := os.WriteFile(o.Session.Scenario, []byte(askForNote), 0o600); err != nil {
			t.Fatal(err)
		}
	}).completed(t)
	denied(t, r.outcomes(t), map[string]string{
		"rename-model": "EROFS", "remove-tools": "EROFS", "rename-dir": "EBUSY|EROFS", "open-dir": "EROFS", "link-in-dir": "EROFS", "listen-in-dir": "EROFS",
		"ask-model": "ECONNRESET", "ask-tools": "ECONNRESET", "ask-agentd": "ECONNRESET",
	})
	if len(r.Notes) != 1 || r.Notes[0].Text != "by the model" {
		t.Errorf("notes %+v", r.Notes)
	}
}
