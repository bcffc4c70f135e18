package agentd_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/tasks"
	"holon/responses/turns"
	"holon/test/expect"
)

// sh runs a script in the server's working tree.
func (h *harness) sh(script string) string {
	h.t.Helper()
	cmd := exec.Command("sh", "-ec", script)
	cmd.Dir = h.cfg.Dirs.Workspace
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=/nonexistent", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_CONFIG_NOSYSTEM=1", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=a",
		"GIT_COMMITTER_EMAIL=a@example.org"}
	out, err := cmd.CombinedOutput()
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// wantNoTrees checks that no private tree is left.
func (h *harness) wantNoTrees() {
	h.t.Helper()
	if _, err := os.Lstat(filepath.Join(h.cfg.Dirs.Workspace, ".agentd-turns")); !errors.Is(err, fs.ErrNotExist) {
		h.t.Errorf("private trees: %v, want none", err)
	}
}

// edits are two tools' edits, and a look around.
const edits = `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: 'pwd; cat f; echo made > new; git status --porcelain || true'}}]
  - calls:
      - tool: ApplyPatch
        arguments: {patch: "--- a/f\n+++ b/f\n@@ -1 +1 @@\n-one\n+two\n"}
  - text: done
`

func TestIsolatedTurns(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{responses.IsolationCopy, responses.IsolationWorktree} {
		t.Run(kind, func(t *testing.T) {
			h := start(t)
			h.sh("mkdir p; cd p; git init -q; echo one > f; git add f; git commit -qm 1; echo u > untracked")
			model := h.scenario("edits", edits)
			body := `{"model":%q,"input":"go","previous_response_id":%s,` +
				`"holon":{"session_id":"sess_1","turn_id":%q,"isolation":%q,"workspace_dir":"p"}}`
			resp := h.post(fmt.Sprintf(body, model, "null", "turn_1", kind)).response(t)
			if resp.Status != responses.StatusCompleted {
				t.Fatalf("the turn is %s: %+v", resp.Status, resp.Error)
			}
			if got := h.sh("cd p; cat f; ls"); got != "one\nf\nuntracked\n" {
				t.Errorf("the origin is %q, want it as it was", got)
			}
			patch := h.file("turn_1", turns.PatchFile)
			if got := h.sh("cd p; git apply --check " + patch + "; git apply " + patch + "; cat f new"); got != "two\nmade\n" {
				t.Errorf("the patched origin is %q, want the change", got)
			}
			rec := h.record("turn_1")
			if n := len(rec.Artifacts); n == 0 || rec.Artifacts[0].Path != turns.PatchFile {
				t.Errorf("artifacts %+v, want %s among them", rec.Artifacts, turns.PatchFile)
			}
			wantOutput := func(turn, want string) {
				t.Helper()
				got := h.sh("cat " + h.file(turn, "tools/*/stdout.log"))
				if want = h.cfg.Dirs.Workspace + "/.agentd-turns/sess_1/tree\n" + want; !strings.HasPrefix(got, want) {
					t.Errorf("the command of %s printed %q, want %q", turn, got, want)
				}
			}
			wantOutput("turn_1", "one\n?? new\n")
			// The next turn goes on with what this one left, and its patch has what it changed itself.
			again := h.scenario("again", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'pwd; cat f new; "+
				"echo more >> new'}}]\n  - text: done\n")
			second := h.post(fmt.Sprintf(body, again, quote(resp.ID), "turn_2", kind)).response(t)
			wantOutput("turn_2", "two\nmade\n")
			patch = h.file("turn_2", turns.PatchFile)
			if got := h.sh("cd p; git apply " + patch + "; cat f new"); got != "two\nmade\nmore\n" {
				t.Errorf("the origin with both patches is %q, want both changes", got)
			}
			// One that continues an earlier response begins with the origin as it is then.
			h.sh("cd p; git checkout -q f; rm new")
			h.post(fmt.Sprintf(body, model, quote(resp.ID), "turn_3", kind)).response(t)
			h.sh("cd p; git apply --check " + h.file("turn_3", turns.PatchFile))
			wantOutput("turn_3", "one\n?? new\n") // what the model was told before of the directory stays true
			for turn, want := range map[string]string{"turn_1": "0\n", "turn_2": "0\n", "turn_3": "1\n"} {
				expect.Equal(t, "warnings of a new tree in "+turn, h.sh("cat "+h.file(turn, turns.RuntimeFile)+
					" | grep -c 'tree_not_continued.*waits for this turn.*'$PWD/p || true"), want)
			}
			// The fork has not taken the tree of the other branch.
			h.post(fmt.Sprintf(body, again, quote(second.ID), "turn_4", kind)).response(t)
			wantOutput("turn_4", "two\nmade\nmore\n")
		})
	}
}

// A turn that changes nothing leaves no patch, one that is cancelled or runs out of time the patch of what it did.
// git in a copy without a repository does not find that of the directory in which private trees lie.
func TestIsolatedTurnFindsNoRepositoryAbove(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sh("git init -q; echo one > f; git add f; git commit -qm 1; git config core.worktree $PWD; echo two > f")
	model := h.scenario("commits", `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: 'git checkout -- . ; git add -A; git -c user.name=a -c user.email=a@b commit -qm evil'}}]
  - text: done
`)
	resp := h.post(fmt.Sprintf(`{"model":%q,"input":"go","holon":{"isolation":"copy"}}`, model)).response(t)
	if resp.Status != responses.StatusCompleted {
		t.Fatalf("the turn is %s: %+v", resp.Status, resp.Error)
	}
	if got := h.sh("git log --format=%s; cat f"); got != "1\ntwo\n" {
		t.Errorf("the origin has the commits and the file %q, want them as they were", got)
	}
}

// A preview names the tree that the turn would work in, with the instructions that are there, and makes none.
func TestPreviewOfIsolatedTurn(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{responses.IsolationCopy, responses.IsolationWorktree} {
		h := start(t, func(cfg *config.Config, _ *agentd.Parts) { cfg.Turns.Isolation = kind })
		h.sh("mkdir -p p/q; cd p; git init -q; echo original > q/AGENTS.md; git add .; git commit -qm 1")
		model := h.scenario("writes", `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: 'echo continued > AGENTS.md'}}]
  - text: done
`)
		body := `{"model":%q,"input":"go","previous_response_id":%s,"holon":{"session_id":"sess_1","workspace_dir":"p/q"}}`
		first, previous := "", "null"
		at := map[string]string{responses.IsolationCopy: "", responses.IsolationWorktree: "/q"}[kind]
		for _, said := range []string{"original", "continued"} {
			body := fmt.Sprintf(body, model, previous)
			shown := h.previewed(body)
			expect.Equal(t, "the isolation", shown.Isolation, kind)
			expect.Equal(t, kind+": notes", len(shown.Notes), 0)
			expect.Equal(t, kind+": the tree", shown.WorkDir, h.cfg.Dirs.Workspace+"/.agentd-turns/sess_1/tree"+at)
			input, err := json.Marshal(shown.Input)
			expect.NoError(t, err)
			if text := shown.Instructions + string(input); !strings.Contains(text, said) ||
				!strings.Contains(text, "The working tree is "+shown.WorkDir+".") {
				t.Errorf("%s: the preview has no %q or not the tree: %.3000s", kind, said, text)
			}
			if previous == "null" {
				h.wantNoTrees()
			}
			previous = quote(h.post(body).response(t).ID)
			first = cmp.Or(first, previous)
		}
		branch := h.previewed(fmt.Sprintf(body, model, first)).Notes
		expect.Contains(t, kind+": notes on a branch", fmt.Sprint(branch), "waits for this turn, which works in a new one")
	}
}

// A secret in a change is named by its variable, and the change stays as it is.
func TestSecretInAnIsolatedChange(t *testing.T) {
	t.Parallel()
	secrets := &redact.Set{}
	secrets.Add("MY_TOKEN", "tok-0123456789")
	h := start(t, func(_ *config.Config, p *agentd.Parts) { p.Secrets = secrets })
	h.sh("mkdir p; echo one > p/f")
	model := h.scenario("leaks", `rounds:
  - calls: [{tool: ExecCommand, arguments: {cmd: 'printf tok-012 > g; printf 3456789 >> g'}}]
  - text: done
`)
	h.post(fmt.Sprintf(`{"model":%q,"input":"go","holon":{"turn_id":"turn_1","isolation":"copy","workspace_dir":"p"}}`,
		model)).response(t)
	for name, want := range map[string]string{turns.PatchFile: "tok-0123456789",
		turns.RuntimeFile: "holds the value of MY_TOKEN"} {
		data, err := os.ReadFile(h.file("turn_1", name))
		if err != nil || !strings.Contains(string(data), want) {
			t.Errorf("%s has no %q: %v\n%s", name, want, err, data)
		}
	}
}

func TestIsolatedTurnsThatEndEarly(t *testing.T) {
	t.Parallel()
	h := start(t)
	nothing := h.scenario("nothing", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'true'}}]\n  - text: done\n")
	h.post(`{"model":"` + nothing + `","input":"go","store":false,"holon":{"turn_id":"turn_0","isolation":"copy"}}`).response(t)
	if _, err := os.Lstat(h.file("turn_0", turns.PatchFile)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the patch of a turn that changed nothing: %v, want none", err)
	}
	h.wantNoTrees()
	slow := h.scenario("slow", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'echo x > new; echo x > "+
		"$HOLON_OUTPUT_DIR/there; sleep 600'}}]\n  - text: done\n")
	started := func(turn string) func() bool {
		return func() bool { _, err := os.Lstat(h.file(turn, turns.ArtifactsDir+"/there")); return err == nil }
	}
	ended := h.later(t.Context(), `{"model":"`+slow+`","input":"go","store":false,"holon":{"turn_id":"turn_1","isolation":"copy"}}`)
	eventually(t, "the command runs", started("turn_1"))
	h.do(http.MethodPost, "/responses/"+h.record("turn_1").ResponseID+"/cancel", "")
	if resp := get(t, ended).response(t); resp.Status != responses.StatusCancelled {
		t.Errorf("the turn is %s, want cancelled", resp.Status)
	}
	h.sh("git init -q; git apply --check " + h.file("turn_1", turns.PatchFile))
	resp := h.post(`{"model":"` + slow + `","input":"go","store":false,"holon":{"turn_id":"turn_2","isolation":"copy",` +
		`"limits":{"timeout_ms":500}}}`).response(t)
	if resp.Status != responses.StatusIncomplete {
		t.Errorf("the turn is %s, want incomplete", resp.Status)
	}
	h.sh("git apply --check " + h.file("turn_2", turns.PatchFile))
	h.wantNoTrees()
}

// A task works in the turn's tree, so it ends with the turn.
func TestIsolatedTurnEndsItsTasks(t *testing.T) {
	t.Parallel()
	h := start(t)
	model := h.scenario("task", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'echo x > new; sleep 600', "+
		"yield_time_ms: 1}}]\n  - text: Started.\n")
	h.post(`{"model":"` + model + `","input":"go","store":false,"holon":{"session_id":"sess_t","isolation":"copy"}}`).response(t)
	var list tasks.List
	h.see("/tasks?session_id=sess_t", &list)
	if len(list.Tasks) != 1 || list.Tasks[0].Status != tasks.Cancelled {
		t.Errorf("tasks %+v, want one that was ended", list.Tasks)
	}
	h.wantNoTrees()
}

// Two turns at once have a tree each.
func TestIsolatedTurnsAtOnce(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sh("echo 0 > f")
	model := h.scenario("meet", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'echo $HOLON_TURN_ID > f; "+
		"echo > $HOLON_OUTPUT_DIR/../../$HOLON_TURN_ID.here; while [ $(ls $HOLON_OUTPUT_DIR/../.. | grep -c here) -lt 2 ]; "+
		"do sleep 0.01; done; cat f', yield_time_ms: 30000}}]\n  - text: done\n")
	var ends []<-chan answer
	for _, id := range []string{"turn_a", "turn_b"} {
		ends = append(ends, h.later(t.Context(), `{"model":"`+model+`","input":"go","store":false,"holon":{"turn_id":"`+id+
			`","isolation":"copy"}}`))
	}
	for _, end := range ends {
		if resp := get(t, end).response(t); resp.Status != responses.StatusCompleted {
			t.Errorf("a turn is %s: %+v", resp.Status, resp.Error)
		}
	}
	for _, id := range []string{"turn_a", "turn_b"} {
		data, err := os.ReadFile(h.file(id, turns.PatchFile))
		if err != nil || !strings.HasSuffix(string(data), "-0\n+"+id+"\n") {
			t.Errorf("the patch of %s is %q (%v)", id, data, err)
		}
	}
	h.wantNoTrees()
}

// What cannot be isolated is refused before there is a turn.
func TestIsolationIsRefused(t *testing.T) {
	t.Parallel()
	h := start(t)
	h.sh("mkdir plain private; ln -s /etc out")
	for _, tt := range []struct{ holon, param string }{
		{`"isolation":"worktree","workspace_dir":"plain"`, "holon.isolation"},
		{`"isolation":"vm"`, "holon.isolation"},
		{`"isolation":"copy","workspace_dir":"out"`, "holon.workspace_dir"},
		{`"isolation":"copy","workspace_dir":"../.."`, "holon.workspace_dir"},
		{`"skills":["nope"]`, "holon.skills[0]"},
	} {
		e := h.post(`{"model":"gate/any","input":"go","store":false,"holon":{"turn_id":"turn_r",` + tt.holon + `}}`).failure(t)
		if e.Param != tt.param || e.Type != responses.TypeInvalidRequest {
			t.Errorf("%s: %v (param %s), want a refusal about %s", tt.holon, e, e.Param, tt.param)
		}
	}
	h.wantNoTrees()
	if _, err := os.Lstat(h.file("turn_r", "")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the turn's directory: %v, want none", err)
	}
}

// A process that is killed leaves its trees. The next one keeps the change and removes them.
func TestIsolatedTurnIsRecovered(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	h := startIn(t, dir, func(cfg *config.Config, _ *agentd.Parts) {
		private := filepath.Join(cfg.Dirs.Workspace, ".agentd-turns/sess_left")
		put(t, filepath.Join(private, "turn"), "turn_left")
		put(t, filepath.Join(private, "base/f"), "1\n")
		put(t, filepath.Join(private, "tree/f"), "2\n")
		expect.NoError(t, os.MkdirAll(filepath.Join(cfg.Dirs.Output, "turns/turn_left"), 0o700))
	})
	h.wantNoTrees()
	if data, err := os.ReadFile(h.file("turn_left", turns.PatchFile)); err != nil ||
		!strings.HasSuffix(string(data), "@@ -1,1 +1,1 @@\n-1\n+2\n") {
		t.Errorf("the patch is %q (%v), want the change", data, err)
	}
}

// The request chooses among the skills that are there.
func TestSkillsAreChosen(t *testing.T) {
	t.Parallel()
	h := start(t, func(cfg *config.Config, parts *agentd.Parts) {
		for _, name := range []string{"pdf", "lint"} {
			put(t, cfg.Dirs.Skills+"/"+name+"/SKILL.md", "---\nname: "+name+"\ndescription: About "+name+".\n---\nBODY\n")
		}
	})
	model := h.scenario("hi", "rounds:\n  - text: hi\n")
	for id, tt := range map[string]struct{ skills, want string }{
		"turn_all": {"", "[lint pdf]"}, "turn_null": {`,"skills":null`, "[lint pdf]"},
		"turn_one": {`,"skills":["pdf"]`, "[pdf]"}, "turn_none": {`,"skills":[]`, "[]"},
	} {
		h.post(`{"model":"` + model + `","input":"go","store":false,"holon":{"turn_id":"` + id + `"` + tt.skills + `}}`).response(t)
		if got := fmt.Sprint(h.record(id).Skills); got != tt.want {
			t.Errorf("%s has the skills %s, want %s", id, got, tt.want)
		}
	}
}
