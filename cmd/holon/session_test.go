package main

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/runner/daemon"
	"holon/state/ledger"
	"holon/test/clientsessions"
	"holon/test/expect"
)

// sessionHost is a daemon that has sessions and no agents.
type sessionHost struct{ control.Host }

func (sessionHost) Info() view.RuntimeInfo {
	return view.RuntimeInfo{Version: buildVersion(), AdvertiseURL: "http://127.0.0.1:7878"}
}

type noEvents struct{ ledger.Store }

func (noEvents) Epoch() string { return "epoch" }

// serveSessions makes the daemon of the environment one with sessions in memory.
func serveSessions(t *testing.T) *clientsessions.Sessions {
	t.Helper()
	home := t.TempDir()
	socket := filepath.Join(home, "run", "s")
	t.Setenv("HOLON_HOME", home)
	t.Setenv("HOLON_SOCKET_PATH", socket)
	sessions := clientsessions.New(t)
	listeners, err := control.Listen(t.Context(), socket, control.Access{})
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	server, done := control.New(control.Options{Store: noEvents{}, Host: sessionHost{}, Sessions: sessions}), make(chan error)
	go func() { done <- server.Run(ctx, listeners) }()
	t.Cleanup(func() {
		cancel()
		expect.NoError(t, <-done)
	})
	return sessions
}

// Each command does what it is for, prints lines for programs, and JSON on request.
func TestSessionCommands(t *testing.T) {
	sessions := serveSessions(t)
	dir := t.TempDir()
	t.Chdir(dir)
	for _, tc := range []struct {
		args string
		code int
		out  string // a part of it
	}{
		{"session list --no-header", 0, "ses_1\tfirst\toperator\tstopped\t2026-11-22T10:00:00Z\tscripted/demo\t-\n"},
		{"session start --workspace . --model openai/gpt-5 --name work", 0, "session\tses_2\nsocket\t"},
		{"session start --json", 0, `"url":"http://127.0.0.1:7878/v1"`},
		{"session start", exitRefused, ""},
		{"session start --workspace nowhere", exitUsage, ""},
		{"session show work", 0, "workspace\t" + dir + "\n"},
		{"session show ses_9", exitUsage, ""},
		{"session show", exitUsage, ""},
		{"session diff ses_2", 0, clientsessions.Patch},
		{"session diff ses_2 --stat", 0, "x"},
		{"session diff ses_2 --name-only", 0, "x\n"},
		{"session diff ses_2 --json", 0, `"session_id":"ses_2"`},
		{"session apply work --allow-executed", 0, "written\t/src/x\n"},
		{"session checkout work --branch b --path tree", 0, filepath.Join(dir, "tree") + "\n"},
		{"session turns work --no-header", 0, "resp_1\tstart\t"},
		{"session turns work --no-header", 0, "\tcompleted, current\tlost\tand"},
		{"session turns work --json", 0, `"tree_kept":true`},
		{"session rewind work", 0, "ses_2\tresp_1\tas they were\n"},
		{"session rewind work start", 0, "ses_2\tstart\tas they were\n"},
		{"session rewind work resp_2", exitFailure, ""},
		{"session rewind work resp_2 --conversation-only --json", 0, `"tree_restored":false`},
		{"session close work", 0, "ses_2\tclosed\n"},
		{"session list --all --json", 0, `"status":"closed"`},
		{"__complete session show ", 0, "ses_3\nses_2\nses_1\n"},
	} {
		args := strings.Split(tc.args, " ")
		var out, errs bytes.Buffer
		if code := run(args, notTerminals(&out, &errs)); code != tc.code || !strings.Contains(out.String(), tc.out) {
			t.Errorf("holon %s: exit code %d, output %q, %s, want %d and %q", tc.args, code, &out, &errs, tc.code, tc.out)
		}
		if strings.Contains(tc.args, "--json") && !json.Valid(out.Bytes()) {
			t.Errorf("holon %s prints %s", tc.args, &out)
		}
	}
	expect.Equal(t, "done", sessions.Done(), "ses_2 apply {AllowExecuted:true ResultTrees:[]} operator\nses_2 checkout {Branch:b Path:"+
		filepath.Join(dir, "tree")+" AllowExecuted:false} operator\nses_2 rewind {ResponseID:resp_1 ConversationOnly:false} operator\n"+
		"ses_2 rewind {ResponseID: ConversationOnly:false} operator\n"+
		"ses_2 rewind {ResponseID:resp_2 ConversationOnly:true} operator\nses_2 close operator")
	var out, errs bytes.Buffer
	expect.Equal(t, "exit code", run([]string{"session", "list", "--no-header"}, notTerminals(&out, &errs)), 0)
	if strings.Contains(out.String(), "ses_2") || !strings.Contains(out.String(), "ses_1") {
		t.Errorf("the open sessions are\n%s", &out)
	}
	var list []wire.Session
	out.Reset()
	expect.Equal(t, "exit code", run([]string{"session", "list", "--json"}, notTerminals(&out, &errs)), 0)
	expect.NoError(t, json.Unmarshal(out.Bytes(), &list))
	expect.Equal(t, "open sessions", len(list), 2)
}

// A daemon lets the tokens of its file in over its port, where a relative path is that of its command.
func TestTokensOfDaemon(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - text: Done.\n")
	const token = "a-token-of-the-file-that-is-long-enough-for-it"
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "work", "tokens"), []byte("app:"+token+"\n"), 0o600))
	with := func(args ...string) *exec.Cmd {
		return command(append(args, "--listen=127.0.0.1:0", "--tokens-file=tokens", "--max-sessions=3", "--session-ttl=90m")...)
	}
	t.Cleanup(func() { stopDaemon(t, filepath.Join(dir, "home")) })
	succeed(t, with("daemon", "start"))
	succeed(t, with("daemon", "start")) // it has these options
	out, err := with("daemon", "status", "--json").Output()
	expect.NoError(t, err)
	var status daemon.Status
	expect.NoError(t, json.Unmarshal(out, &status))
	for path, refused := range map[string]bool{"/status": true, "/v1/holon/sessions": false} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+status.HTTPAddr+path, nil)
		expect.NoError(t, err)
		req.Header.Set("Authorization", "Bearer "+token)
		resp, err := http.DefaultClient.Do(req)
		expect.NoError(t, err)
		expect.NoError(t, resp.Body.Close())
		expect.Equal(t, path+" is refused", resp.StatusCode == http.StatusForbidden, refused)
		expect.Equal(t, path+" has no access", resp.StatusCode == http.StatusUnauthorized, false)
	}
	if err := command("daemon", "start", "--listen=127.0.0.1:0").Run(); err == nil {
		t.Error("a daemon without the tokens has the same options")
	}
}
