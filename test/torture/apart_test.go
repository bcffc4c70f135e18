package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/buckettest"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/postgrestest"
)

// tour is what an agent does on its way: each turn is only played where the conversation has those before.
const tour = `turns:
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'echo one >> /holon/workspaces/agent_home/ran; echo made > "$HOLON_OUTPUT_DIR/made"'}}]
      - text: first
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'echo two >> /holon/workspaces/agent_home/ran'}}]
      - text: second
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'echo three >> /holon/workspaces/agent_home/ran; sleep 3600', yield_time_ms: 3600000}}]
      - text: third
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'echo four >> /holon/workspaces/agent_home/ran'}}]
      - text: fourth
`

// Two holon serve with homes of their own share a ledger and a bucket. What one did before it was killed, the other one
// has: the conversation, the files of the home, and those of the turns. A turn that was cut is settled, and its message
// comes back; the first one, started again, has nothing that the other one did not have.
func TestApart(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: daemons with containers, a database and a bucket")
	}
	expect.NoError(t, needEngine(t.Context()))
	url, bucket := postgrestest.New(t).Database(t), buckettest.New(t)
	var hosts []*load.Server
	for range 2 {
		dir, err := os.MkdirTemp("", "ap")
		expect.NoError(t, err)
		s, err := load.New(load.Options{Dir: dir, Script: []byte(tour), Env: append(bucket.Env(), "HOLON_LEDGER="+url,
			"HOLON_STORE="+bucket.URL())})
		expect.NoError(t, err)
		t.Cleanup(func() {
			s.Close()
			if t.Failed() {
				text, _ := os.ReadFile(filepath.Join(dir, "serve.log")) // it may not have begun
				t.Logf("%s\n%s", dir, text[max(0, len(text)-8<<10):])
			}
			_ = errors.Join(load.RemoveContainers(s.Home), os.RemoveAll(dir))
		})
		hosts = append(hosts, s)
	}
	one, two := hosts[0], hosts[1]
	expect.NoError(t, one.Start(t.Context()))
	first := prompted(t, one, "1")
	processed(t, one, first, "first")
	expect.NoError(t, two.Start(t.Context()))
	made := "/agents/main/turns/" + turnOf(t, two, first) + "/files/artifacts/made"
	expect.Equal(t, "an artifact through the other host", body(t, two, made), "made\n")
	one.Kill()

	second := prompted(t, two, "2")
	processed(t, two, second, "second")
	expect.Equal(t, "what ran", ran(two), "one\ntwo\n")
	expect.Equal(t, "an artifact of the turn before", body(t, two, made), "made\n")
	prompted(t, two, "3")
	expect.NoError(t, load.Eventually(t.Context(), load.Patience, func() error {
		if got := ran(two); got != "one\ntwo\nthree\n" {
			return fmt.Errorf("ran %q", got)
		}
		return nil
	}))
	two.Kill() // in the turn
	expect.NoError(t, load.RemoveContainers(two.Home))

	expect.NoError(t, one.Start(t.Context()))
	expect.NoError(t, load.Eventually(t.Context(), load.Patience, func() error {
		if got := ran(one); got != "one\ntwo\nthree\n" { // of the message that came back
			return fmt.Errorf("ran %q", got)
		}
		return nil
	}))
}

func ran(s *load.Server) string {
	text, _ := os.ReadFile(s.Ran("main")) // it may not be there yet
	return string(text)
}

func prompted(t *testing.T, s *load.Server, key string) string {
	t.Helper()
	sent, err := s.Client.Prompt(t.Context(), "main", wire.Prompt{Text: "go on"}, key)
	expect.NoError(t, err)
	return sent.MessageID
}

// processed waits until a message has its turn, whose answer is text.
func processed(t *testing.T, s *load.Server, message, text string) {
	t.Helper()
	expect.NoError(t, load.Eventually(t.Context(), load.Patience, func() error {
		m, err := s.Client.Message(t.Context(), "main", message)
		if err == nil && (m.Entry.Status != ledger.Processed || m.Turn == nil || m.Turn.Last != text) {
			err = fmt.Errorf("it is %s: %+v", m.Entry.Status, m.Turn)
		}
		return err
	}))
}

func turnOf(t *testing.T, s *load.Server, message string) string {
	t.Helper()
	m, err := s.Client.Message(t.Context(), "main", message)
	expect.NoError(t, err)
	return m.Turn.ID
}

func body(t *testing.T, s *load.Server, path string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, "http://holon"+path, nil)
	expect.NoError(t, err)
	client := load.Unix(s.Socket)
	defer client.CloseIdleConnections()
	answer, err := client.Do(req)
	expect.NoError(t, err)
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	expect.NoError(t, err)
	return string(text)
}
