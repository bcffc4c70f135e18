package pool_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/runner/agent/pool"
	"holon/test/expect"
)

// rebinding leaves a task that takes the place of agentd's socket and keeps what it is
// sent in the file got.
const rebinding = `
turns:
  - rounds:
      - calls:
          - tool: ExecCommand
            arguments:
              yield_time_ms: 250
              cmd: |
                cat > listen.py <<'END'
                import os, socket
                path = "/holon/ipc/agent.sock"
                os.unlink(path)
                s = socket.socket(socket.AF_UNIX)
                s.bind(path)
                s.listen()
                open("ran", "w").write("run")
                while True:
                    conn, _ = s.accept()
                    data = conn.recv(65536)
                    if data:
                        open("got", "ab").write(data)
                    conn.close()
                END
                exec python3 listen.py
      - text: done
  - rounds: [{text: after}]
`

// A task that took the place of agentd's socket, while a holon watched or not, is not
// told what the operator says next: where agentd is reached no more, the agent gets
// another container.
func TestSocketRebound(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		name := map[bool]string{false: "watched", true: "unwatched"}[killed]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, "docker", rebinding)
			l.agent("ada")
			first := pool.Turn{AgentID: "ada", Turn: runner.Turn{ID: crashTurn, Prompt: "go on"}}
			k := l.pool()
			if killed {
				l.crash("docker", "ended")
			} else if r, err := k.Turn(t.Context(), first, nil,
				new(lines)); err != nil || r.Status != responses.StatusCompleted {
				t.Fatalf("%+v, %v", r, err)
			}
			l.awaitFile("ran")
			before := l.only()
			l.clock.pass(time.Minute)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			next := pool.Turn{AgentID: "ada", Turn: runner.Turn{ID: responses.NewID(responses.PrefixTurn),
				Prompt: "a secret"}}
			r, err := k.Turn(ctx, next, nil, new(lines))
			if err != nil || r.Status != responses.StatusCompleted {
				t.Errorf("the next turn: %+v, %v", r, err)
			}
			// a pool that lives has connections to agentd
			if killed && (r.Fresh == "" || l.only().Handle == before.Handle) {
				t.Error("the container is kept")
			}
			if got, err := os.ReadFile(filepath.Join(l.home.AgentDir("ada"), "got")); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the task was told %q (%v)", got, err)
			}
			expect.NoError(t, k.Stop(t.Context(), "ada")) // with the task, which a shutdown leaves
		})
	}
}

// awaitFile waits until the agent has made a file.
func (l *lab) awaitFile(name string) {
	l.t.Helper()
	for begin := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(filepath.Join(l.home.AgentDir("ada"), name)); err == nil {
			return
		}
		if time.Since(begin) > patience {
			l.t.Fatalf("there is no %s", name)
		}
	}
}
