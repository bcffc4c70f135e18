package activation_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/activation"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
	"holon/skills"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) {
	memory.Use()
	os.Exit(m.Run())
}

var (
	pdf  = skills.Skill{Name: "pdf", Path: "/holon/skills/pdf/SKILL.md", Scope: "agent"}
	lint = skills.Skill{Name: "lint", Path: "/tree/.agents/skills/lint/SKILL.md", Scope: "workspace"}
)

func watch() *activation.Watch {
	return activation.NewWatch(skills.Catalog{Skills: []skills.Skill{pdf, lint}},
		turns.Scope{RuntimeID: "inst_1", SessionID: "s", TurnID: "t", Now: time.Now}, "/home/u")
}

// ended is the outcome of a call with a canonical result.
func ended(result string) tools.Outcome {
	return tools.Outcome{Canonical: tools.Result{Status: "success", Result: json.RawMessage(result)}}
}

func TestToolEnded(t *testing.T) {
	failed := tools.Outcome{Canonical: tools.Result{Status: "error",
		Error: &tools.Error{Kind: "command_timeout"}}}
	const read = `{"cmd":"cat /holon/skills/pdf/SKILL.md"}`
	for _, tc := range []struct {
		name, tool, args string
		outcome          tools.Outcome
		want             []string // load reasons and paths
	}{
		{"a read", "ExecCommand", read, ended(`{"disposition":"completed","exit_status":0}`),
			[]string{"read_skill_md /holon/skills/pdf/SKILL.md"}},
		{"a read that failed", "ExecCommand", read, ended(`{"exit_status":1}`), nil},
		{"a read that did not run", "ExecCommand", read, failed, nil},
		{"one that runs on", "ExecCommand", read, ended(`{"disposition":"promoted_to_task","task_handle":{}}`), nil},
		{"killed by a signal", "ExecCommand", read, ended(`{"exit_status":null}`), nil},
		{"another tool", "ApplyPatch", read, ended(`{"exit_status":0}`), nil},
		{"no arguments", "ExecCommand", `[]`, ended(`{"exit_status":0}`), nil},
		{"a strange result", "ExecCommand", read, ended(`[]`), nil},
		{"relative to the tree", "ExecCommand", `{"cmd":"sh .agents/skills/lint/scripts/all.sh"}`,
			ended(`{"exit_status":0}`), []string{"run_skill_script /tree/.agents/skills/lint/scripts/all.sh"}},
		{"relative to a directory", "ExecCommand", `{"cmd":"sh scripts/all.sh","workdir":".agents/skills/lint"}`,
			ended(`{"exit_status":0}`), []string{"run_skill_script /tree/.agents/skills/lint/scripts/all.sh"}},
		{"an absolute directory", "ExecCommand", `{"cmd":"cat SKILL.md","workdir":"/holon/skills/pdf"}`,
			ended(`{"exit_status":0}`), []string{"read_skill_md /holon/skills/pdf/SKILL.md"}},
		{"a batch", "ExecCommandBatch", `{"items":[{"cmd":"cat /holon/skills/pdf/SKILL.md"},{"cmd":"cat ` +
			`.agents/skills/lint/SKILL.md"},{"cmd":"true"}]}`,
			ended(`{"items":[{"index":0,"status":"completed","result":{"exit_status":2}},{"index":1,` +
				`"status":"completed","result":{"exit_status":0}},{"index":9,"result":{"exit_status":0}}]}`),
			[]string{"read_skill_md /tree/.agents/skills/lint/SKILL.md"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got []string
			for _, e := range watch().ToolEnded(&responses.ToolCall{ID: "tc_1", Name: tc.tool, Arguments: tc.args},
				tc.outcome, "/tree") {
				var p turns.Skill
				expect.NoError(t, json.Unmarshal(e.Payload, &p))
				switch {
				case e.Type != "holon.skill.activated":
					t.Errorf(`%+v: e.Type = %q, want "holon.skill.activated"`, e, e.Type)
				case e.ToolCallID != "tc_1":
					t.Errorf(`%+v: e.ToolCallID = %q, want "tc_1"`, e, e.ToolCallID)
				case !strings.HasSuffix(p.EntrypointPath, "/"+p.Name+"/SKILL.md"):
					t.Errorf("%+v: p.EntrypointPath = %q, want it to end with %q", e, p.EntrypointPath,
						"/"+p.Name+"/SKILL.md")
				case p.ActivationState != "turn_active":
					t.Errorf(`%+v: p.ActivationState = %q, want "turn_active"`, e, p.ActivationState)
				}
				got = append(got, p.LoadReason+" "+p.Path)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A turn has one fact for each file, however often it is used.
func TestFactsAreToldOnce(t *testing.T) {
	w := watch()
	n := 0
	for range 3 {
		for _, cmd := range []string{"cat /holon/skills/pdf/SKILL.md", "/holon/skills/pdf/scripts/a"} {
			n += len(w.ToolEnded(&responses.ToolCall{ID: "tc_1", Name: "ExecCommand",
				Arguments: fmt.Sprintf(`{"cmd":%q}`, cmd)}, ended(`{"exit_status":0}`), "/tree"))
		}
	}
	switch {
	case n != 2:
		t.Errorf("n = %d, want 2", n)
	case len(w.Active()) != 1:
		t.Errorf("len(w.Active()) = %d (%+v), want 1", len(w.Active()), w.Active())
	case w.Active()[0] != pdf:
		t.Errorf("w.Active()[0] = %+v, want %+v", w.Active()[0], pdf)
	}
	var many strings.Builder
	for i := range 1000 {
		fmt.Fprintf(&many, "/holon/skills/pdf/scripts/%d ", i)
	}
	if n := len(w.ToolEnded(&responses.ToolCall{ID: "tc_1", Name: "ExecCommand",
		Arguments: fmt.Sprintf(`{"cmd":%q}`, many.String())}, ended(`{"exit_status":0}`), "/tree")); n > 256 {
		t.Errorf("%d facts", n)
	}
}

// states lists what a session has in use.
func states(t *testing.T, s activation.Sessions, session string) (list []string) {
	t.Helper()
	active, err := s.Load(session)
	expect.NoError(t, err)
	for _, a := range active {
		list = append(list, a.SkillID+" "+a.ActivationState+" "+a.Turn)
	}
	return list
}

func TestSessions(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "skills")
	s := activation.Sessions{Dir: dir, Instance: "inst_1"}
	if got := states(t, s, "sess_1"); got != nil {
		t.Errorf("a new session has %v", got)
	}
	if err := errors.Join(s.Promote("sess_1", "turn_0", nil), s.Promote("sess_1", "turn_1", []skills.Skill{pdf, lint}),
		s.Promote("sess_1", "turn_2", []skills.Skill{pdf})); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"workspace/lint session_active turn_1", "agent/pdf session_active turn_2"},
		states(t, s, "sess_1")); diff != "" {
		t.Error(diff)
	}
	if got := states(t, s, "sess_2"); got != nil {
		t.Errorf("another session has %v", got)
	}
	next := activation.Sessions{Dir: dir, Instance: "inst_2"}
	if diff := cmp.Diff([]string{"workspace/lint restored turn_1", "agent/pdf restored turn_2"},
		states(t, next, "sess_1")); diff != "" {
		t.Error(diff)
	}
}

func TestDamagedSessions(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(outside, []byte(`{"schema":"holon.session-skills/1","session_id":"sess_1"}`),
		0o600); err != nil {
		t.Fatal(err)
	}
	for name, damage := range map[string]func(path string) error{
		"cut":   func(path string) error { return os.WriteFile(path, []byte(`{"schema":"holon.session`), 0o600) },
		"empty": func(path string) error { return os.WriteFile(path, nil, 0o600) },
		"another's": func(path string) error {
			return os.WriteFile(path, []byte(`{"schema":"holon.session-skills/1","session_id":"sess_2"}`), 0o600)
		},
		"another schema": func(path string) error {
			return os.WriteFile(path, []byte(`{"schema":"x","session_id":"sess_1"}`), 0o600)
		},
		"huge":   func(path string) error { return os.Truncate(path, 1<<30) },
		"a link": func(path string) error { return errors.Join(os.Remove(path), os.Symlink(outside, path)) },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			s := activation.Sessions{Dir: dir, Instance: "inst_1"}
			expect.NoError(t, errors.Join(s.Promote("sess_1", "turn_1", []skills.Skill{pdf}),
				damage(filepath.Join(dir, "sess_1.json"))))
			if got, err := s.Load("sess_1"); err == nil {
				t.Errorf("read %v", got)
			}
			expect.NoError(t, s.Promote("sess_1", "turn_2", []skills.Skill{lint}))
			if diff := cmp.Diff([]string{"workspace/lint session_active turn_2"}, states(t, s, "sess_1")); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestSessionsAreBounded(t *testing.T) {
	dir := t.TempDir()
	for i := range 5000 {
		expect.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprintf("sess_%d.json", i)), nil, 0o600))
	}
	s := activation.Sessions{Dir: dir, Instance: "inst_1"}
	var many []skills.Skill
	for i := range 100 {
		many = append(many, skills.Skill{Name: fmt.Sprint(i), Path: fmt.Sprintf("/s/%d/SKILL.md", i),
			Scope: "agent"})
	}
	expect.NoError(t, s.Promote("sess_new", "turn_1", many))
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 3072 {
		t.Errorf("%d files, %v", len(entries), err)
	}
	if got := states(t, s, "sess_new"); len(got) != 64 || got[63] != "agent/99 session_active turn_1" {
		t.Errorf("%d skills: %v", len(got), got)
	}
}
