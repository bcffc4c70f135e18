package security

import (
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/oneshot"
	"holon/state"
	"holon/test/expect"
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
	t.Parallel()
	l := newLab(t)
	g, err := gateway.New(gateway.Options{Providers: map[string]gateway.Provider{"openai": {
		BaseURL: "http://127.0.0.1:9", Credential: gateway.NewSecret("sk-lab-0123456789abcdef"),
	}}})
	expect.NoError(t, err)
	defer g.Close()
	r := l.attack(func(o *oneshot.Run) {
		o.Session.Gateway, o.Session.Scenario = g, filepath.Join(filepath.Dir(l.home), "note.yaml")
		expect.NoError(t, os.WriteFile(o.Session.Scenario, []byte(askForNote), 0o600))
	}).completed(t)
	denied(t, r.outcomes(t), map[string]string{
		"rename-model": "EACCES", "remove-tools": "EACCES", "rename-dir": "EACCES|EBUSY|EROFS", "open-dir": "EPERM|EROFS",
		"link-in-dir": "EACCES", "listen-in-dir": "EACCES",
		"ask-model": "EACCES", "ask-tools": "EACCES", "ask-agentd": "EACCES",
	})
	if len(r.Notes) != 1 || r.Notes[0].Text != "by the model" {
		t.Errorf("notes %+v", r.Notes)
	}
}

// An image with a link in place of a directory of ours would have it mounted where
// commands can rename it. No command runs in such a container.
func TestLinkedImage(t *testing.T) {
	t.Parallel()
	for link, target := range map[string]string{"host": "/tmp/a/b", "ipc": "/tmp", "output": "/holon/ipc"} {
		t.Run(link, func(t *testing.T) {
			l := newLab(t)
			dir := filepath.Join(t.TempDir(), "holon")
			expect.NoError(t, os.Mkdir(dir, 0o755))
			expect.NoError(t, os.Symlink(target, filepath.Join(dir, link)))
			image := "holon-security:" + link + "-" + strings.ToLower(rand.Text())
			made := strings.TrimSpace(l.host("docker", "create", "--network", "none", baseImage))
			l.host("docker", "cp", dir, made+":/")
			l.host("docker", "commit", made, image)
			l.host("docker", "rm", made)
			t.Cleanup(func() { l.host("docker", "rmi", image) })
			cfg := l.config()
			cfg.ID, cfg.Image = state.NewRunID(), image
			cfg.Dir, cfg.SocketDir = filepath.Join(l.home, cfg.ID), filepath.Join(l.home, "ipc", cfg.ID)
			s, err := runner.Start(t.Context(), cfg)
			if err == nil {
				err = errors.Join(errors.New("it was started"), s.Close(t.Context()))
			}
			if !strings.Contains(err.Error(), "by a link; use an image without links below /holon") {
				t.Errorf("%v, want a refusal for the link", err)
			}
		})
	}
}
