package answers_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/engine/docker"
	"holon/state/ledger"
	"holon/test/expect"
)

// servedEnv names the home that a process serves which is killed, and its engine.
const servedEnv = "HOLON_TEST_ANSWERS_HOME"

// serveUntilKilled is the process that a test kills: it serves the home that its environment names.
func serveUntilKilled(t *testing.T) {
	dir, eng, _ := strings.Cut(os.Getenv(servedEnv), ":")
	l := labIn(t, dir, eng)
	l.open()
	fmt.Println("serving", l.url)
	select {}
}

// serve starts a process that serves the home of l until it is killed, which kill does.
func (l *lab) serve() (kill func()) {
	l.t.Helper()
	cmd := exec.CommandContext(l.t.Context(), os.Args[0], "-test.run=^TestOneEndAfterAKill$")
	cmd.Env = append(os.Environ(), servedEnv+"="+filepath.Dir(l.scenario)+":"+l.engine)
	out, err := cmd.StdoutPipe()
	expect.NoError(l.t, err)
	expect.NoError(l.t, cmd.Start())
	for in := bufio.NewScanner(out); l.url == "" && in.Scan(); {
		l.url, _ = strings.CutPrefix(in.Text(), "serving ")
	}
	return func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		l.url = ""
	}
}

// A holon that is killed leaves each response with one end: of a turn that goes on in its container, of one that dies
// with its holon, and of a message that was in the queue. A client that comes back misses and repeats nothing.
func TestOneEndAfterAKill(t *testing.T) {
	if os.Getenv(servedEnv) != "" {
		serveUntilKilled(t)
	}
	const queued = "response.queued"
	for eng, want := range map[string]responses.Status{"local": responses.StatusFailed,
		"docker": responses.StatusCompleted} {
		for _, upTo := range []string{queued, "response.in_progress", "response.output_item.done"} {
			t.Run(eng+" "+upTo, func(t *testing.T) {
				t.Parallel()
				l := killable(t, eng)
				kill := l.serve()
				id, got := l.read("work", upTo)
				next := l.ask("app", "POST", "", input("next", `,"background":true`))
				kill()
				l.open()
				defer l.close()
				resp := l.begin(context.WithoutCancel(t.Context()), "app", "GET", "/"+id+"?stream=true", "")
				var all bytes.Buffer
				_, err := all.ReadFrom(resp.Body)
				expect.NoError(t, err)
				expect.NoError(t, resp.Body.Close())
				if l.streamed(all.Bytes()); !bytes.HasPrefix(all.Bytes(), got) {
					t.Errorf("the stream is\n%s\nand was before\n%s", all.Bytes(), got)
				}
				if got := l.ask("app", "GET", "/"+id, "").Status; got != want && upTo != queued {
					t.Errorf("the response is %s, want %s", got, want) // one in the queue may have had no turn yet
				}
				l.until("the message behind it", func(v ledger.View) (bool, error) {
					e, err := v.Entry(ledger.OfResponse(next.ID))
					return e.Status.Terminal(), err
				})
				expect.Equal(t, "text of the next", l.ask("app", "GET", "/"+next.ID, "").OutputText(), "here")
			})
		}
	}
}

// killable is a lab of an engine whose turn lasts beyond a kill.
func killable(t *testing.T, eng string) *lab {
	t.Helper()
	dir, err := os.MkdirTemp("", "hk-")
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(dir)) })
	if eng == "docker" {
		engine, err := docker.New("", "")
		expect.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = engine.Check(ctx)
		expect.NoError(t, engine.Close())
		if err != nil {
			t.Skipf("no engine answers: %v", err)
		}
	}
	l := labIn(t, dir, eng)
	expect.NoError(t, os.WriteFile(l.scenario, []byte(`rounds: [{cases: [{when: {user: {contains: next}}, text: here}, `+
		`{text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "sleep 3"}}]}]}, {text: done}]`), 0o644))
	return l
}
