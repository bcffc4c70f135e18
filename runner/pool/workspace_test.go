package pool_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/folder"
	"holon/responses"
	"holon/runner/engine"
	"holon/runner/hosttools"
	"holon/runner/pool"
	"holon/test/expect"
)

// moving goes to a workspace in the middle of a round, and back.
const moving = `
turns:
  - rounds:
      - calls:
          - {tool: ExecCommand, arguments: {cmd: 'pwd; touch made'}}
          - {tool: Go, arguments: {to: /holon/workspaces/api/sub}}
          - {tool: ExecCommand, arguments: {cmd: 'pwd; cat ../seed; echo x > made; ls /holon/objects/ws_1; echo y > /holon/objects/y || echo kept; mkdir /holon/workspaces/own || echo closed; ls /holon/workspaces/agent_home/.holon'}}
      - calls:
          - {tool: Go, arguments: {to: /holon/state}}
          - {tool: Go, arguments: {to: /holon/workspaces/agent_home}}
          - {tool: ExecCommand, arguments: {cmd: 'pwd; ls'}}
      - text: moved
  - rounds:
      - calls: [{tool: ExecCommand, arguments: {cmd: 'pwd; cat made'}}]
      - text: there
  - rounds: [{text: still}]
`

// mover is an agent with a tool that makes a tree in its workspaces, and goes to a directory.
type mover struct {
	*lab
	pool  *pool.Pool
	stood int // how often the container was held still
}

func (m *mover) private(name string) string {
	return filepath.Join(m.home.AgentPrivateDir("a"), name)
}

// put makes files where the container sees them, of its user.
func (m *mover) put(ctx context.Context, dir string, owner *folder.Owner) error {
	err := errors.Join(os.MkdirAll(filepath.Join(dir, "sub"), 0o700),
		os.WriteFile(filepath.Join(dir, "seed"), []byte("seed\n"), 0o600))
	if owner == nil || err != nil {
		return err
	}
	return filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		return errors.Join(err, ctx.Err(), os.Lchown(path, owner.UID, owner.GID))
	})
}

func (m *mover) tools(string) []hosttools.Tool {
	return []hosttools.Tool{{Name: "Go", Schema: json.RawMessage(`{"type":"object"}`),
		Call: func(ctx context.Context, c hosttools.Call) (result hosttools.Result, err error) {
			var args struct{ To string }
			if err := json.Unmarshal(c.Arguments, &args); err != nil {
				return result, err
			}
			err = m.pool.Still(ctx, "a", func(ctx context.Context, owner *folder.Owner) error {
				m.stood++
				if m.engine.Name() == "docker" {
					if status := m.only().Status; status != engine.StatusPaused {
						m.t.Errorf("the container is %s while it is held still", status)
					}
				}
				return errors.Join(m.put(ctx, m.private("workspaces/api"), owner),
					m.put(ctx, m.private("objects/ws_1"), nil), os.Chmod(m.private("objects/ws_1"), 0o755))
			})
			result.Directive.WorkingDirectory = args.To
			return result, err
		}}}
}

// The calls that follow a directive of the host work in a tree that was made after the container; the next turn begins
// there, and reads its instructions from the anchor. Only what lies below the workspaces is gone to.
func TestWorkspaces(t *testing.T) {
	t.Parallel()
	for _, eng := range []string{"docker", "local"} {
		t.Run(eng, func(t *testing.T) {
			t.Parallel()
			m := &mover{lab: newLab(t, eng, moving)}
			m.agent("a")
			m.pool = m.lab.pool(func(o *pool.Options) { o.Tools = m.tools })
			inside := func(path string) string {
				if eng == "docker" {
					return "/holon/workspaces/" + path
				}
				if path == "agent_home" {
					return m.home.AgentDir("a")
				}
				return m.private("workspaces/" + path)
			}
			end, results := m.turn("first", "", "", "")
			want := []string{inside("agent_home"), inside("api/sub"), inside("agent_home")}
			for i, at := range want {
				if i >= len(results) || !strings.Contains(results[i], at+`\n`) {
					t.Errorf("command %d is not in %s: %q", i, at, results)
				}
			}
			if m.stood != 3 || len(results) == 3 && !strings.Contains(results[1], `seed\n`) {
				t.Errorf("held still %d times; %q", m.stood, results)
			}
			if eng == "docker" && (!strings.Contains(results[1], "kept") || strings.Contains(results[1], "workspaces\\n") ||
				os.Geteuid() == 0 && !strings.Contains(results[1], "closed")) {
				t.Errorf("the container writes objects, names trees, or sees what is the host's: %q", results[1])
			}
			expect.NoError(t, os.MkdirAll(m.private("anchors/ws_1"), 0o755))
			expect.NoError(t, os.WriteFile(m.private("anchors/ws_1/AGENTS.md"), []byte("Of the anchor."), 0o644))
			next := turnOf("a", "t", "x")
			next.WorkDir, next.AnchorDir = "api/sub", "ws_1"
			preview, err := m.pool.Preview(t.Context(), next)
			if err != nil || !strings.Contains(preview.Instructions, "Of the anchor.") {
				t.Errorf("%v: %.3000s", err, preview.Instructions)
			}
			if _, results = m.turn("second", end.ResponseID, "api/sub", "ws_1"); len(results) != 1 ||
				!strings.Contains(results[0], inside("api/sub")+`\nx\n`) {
				t.Errorf("the next turn: %q", results)
			}
			next.WorkDir = "gone"
			var refused *pool.Error
			if _, err := m.pool.Turn(t.Context(), next, nil, new(lines)); !errors.As(err, &refused) ||
				refused.Param != "holon.workspace_dir" {
				t.Errorf("a tree that vanished: %v", err)
			}
			expect.NoError(t, m.pool.Stop(t.Context(), "a"))
			expect.NoError(t, m.pool.Still(t.Context(), "a", func(_ context.Context, owner *folder.Owner) error {
				if owner != nil {
					t.Errorf("without a container trees are given to %v", owner)
				}
				return nil
			}))
		})
	}
}

// turn makes a turn of the agent and returns what its commands printed.
func (m *mover) turn(id, previous, workDir, anchorDir string) (end struct{ ResponseID string }, results []string) {
	m.t.Helper()
	turn := pool.Turn{AgentID: "a", Turn: continuing(previous, "go")}
	turn.Request.Holon.TurnID = responses.PrefixTurn + id
	turn.WorkDir, turn.AnchorDir = workDir, anchorDir
	w := &lines{onResult: func(text string) { results = append(results, text) }}
	r, err := m.pool.Turn(m.t.Context(), turn, w.begin, w)
	if err != nil || r.Status != responses.StatusCompleted {
		m.t.Fatalf("%v: %+v", err, r)
	}
	end.ResponseID = r.ResponseID
	return end, results
}
