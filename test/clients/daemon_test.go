package clients

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/load"
	"holon/test/programs"
)

// engines are those of sessions. The fast tier takes the local one.
func engines(t *testing.T) []string {
	if testing.Short() {
		return []string{"local"}
	}
	if err := exec.CommandContext(t.Context(), "docker", "info").Run(); err != nil {
		t.Logf("no Docker engine answers, so sessions in containers are not checked: %v", err)
		return []string{"local"}
	}
	return []string{"local", "docker"}
}

// onDoor runs a check against holon serve, whose sessions play a scenario, with each engine.
func onDoor(t *testing.T, scenario string, check func(t *testing.T, s *server)) {
	t.Helper()
	for _, engine := range engines(t) {
		t.Run(engine, func(t *testing.T) { check(t, serveDoor(t, engine, scenario)) })
	}
}

// serveDoor starts holon serve, with more options, and ends it when the test is over.
func serveDoor(t *testing.T, engine, scenario string, more ...func(dir string, o *load.Options)) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "holon-door-") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	script, err := os.ReadFile(filepath.Join("testdata", scenario+".yaml"))
	expect.NoError(t, err)
	o := load.Options{Dir: dir, Script: script, Flags: []string{"--listen=127.0.0.1:0", "--max-sessions=2000"},
		Env: []string{"HOLON_ENGINE=" + engine, "HOLON_CONTROL_AUTH_MODE=disabled", "HOLON_MAX_CONTAINERS=64",
			"HOLON_SESSION_PAUSE=10s", "HOLON_SESSION_STOP=30s", "HOLON_RETRY_FOR=0s",
			"HOLON_AGENTD=" + programs.Must("agentd")}}
	for _, change := range more {
		change(dir, &o)
	}
	h, err := load.New(o)
	expect.NoError(t, err)
	t.Cleanup(func() {
		err := h.End()
		h.Close()
		if err = errors.Join(err, load.RemoveContainers(h.Home), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	expect.NoError(t, h.Start(t.Context()))
	s := &server{dir: dir, socket: h.Socket, model: h.Model()}
	_, after, _ := strings.Cut(string(h.Tail()), " http=")
	address, _, _ := strings.Cut(after, "\n")
	if s.tcp = "http://" + strings.TrimSpace(address) + "/v1"; address == "" {
		t.Fatalf("holon does not listen:\n%s", h.Tail())
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("holon printed:\n%s", h.Tail())
		}
	})
	return s
}

// The clients of this package at the door of a daemon, with a session for each conversation.
func TestConformanceAtDoor(t *testing.T) {
	t.Parallel()
	onDoor(t, "conformance", func(t *testing.T, s *server) { conforms(t, s, "tcp") })
}

func TestOpenAIGoAtDoor(t *testing.T) {
	t.Parallel()
	onDoor(t, "clients", func(t *testing.T, s *server) { play(t, s, "tcp", "", programs.Must("gosdk")) })
}

func TestOpenAINodeAtDoor(t *testing.T) {
	t.Parallel()
	installNode(t)
	onDoor(t, "clients", func(t *testing.T, s *server) { play(t, s, "tcp", "node", "node", "openai.mjs") })
}

func TestAISDKAtDoor(t *testing.T) {
	t.Parallel()
	installNode(t)
	onDoor(t, "clients", func(t *testing.T, s *server) { play(t, s, "unix", "node", "node", "ai.mjs") })
}

// Chat Completions are the door's alone.
func TestChatAtDoor(t *testing.T) {
	t.Parallel()
	installNode(t)
	onDoor(t, "clients", func(t *testing.T, s *server) { play(t, s, "tcp", "node", "node", "chat.mjs") })
}
