package security

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/load"
)

type (
	object = map[string]any
	list   = []any
)

// agents is a daemon with agents whose model does, for a word of a message, what the word stands for.
type agents struct {
	*lab
	*load.Server
	home state.Home
}

// shell is a call that runs commands.
func shell(cmd string) object {
	return object{"tool": "ExecCommand", "arguments": object{"cmd": cmd, "yield_time_ms": 60_000}}
}

// serveAgents starts the daemon; agents may use what is below the roots. The answer to a message is what its call
// showed.
func (l *lab) serveAgents(roots []string, words map[string]object, ids ...string) *agents {
	l.t.Helper()
	var cases list
	for word, call := range words {
		cases = append(cases, object{"calls": list{call},
			"when": object{"user": object{"matches": word + `\.[^\n]*(\n[^\n]*){0,2}$`}}})
	}
	script := object{"rounds": list{object{"cases": append(cases, object{"text": "Nothing."})},
		object{"text": "{{last_output}}"}}}
	dir := filepath.Dir(l.home)
	file := filepath.Join(dir, "agents.yaml")
	expect.NoError(l.t, os.WriteFile(file, must(json.Marshal(script))(l.t), 0o600))
	s := must(load.New(load.Options{Dir: dir, Model: "scripted/" + file, Roots: roots}))(l.t)
	l.home = s.Home
	a := &agents{l, s, must(state.FindHome(s.Home, ""))(l.t)}
	l.t.Cleanup(func() {
		if err := s.End(); err != nil {
			l.t.Error(err)
		}
		s.Close()
	})
	expect.NoError(l.t, s.Start(l.t.Context()))
	for _, id := range ids {
		expect.NoError(l.t, s.Create(l.t.Context(), id))
	}
	return a
}

// ask has an agent do what a word stands for, and returns what the call showed.
func (a *agents) ask(agent, word string) string {
	a.t.Helper()
	sent := must(a.Client.Prompt(a.t.Context(), agent, wire.Prompt{Text: "Do " + word + "."}, ""))(a.t)
	var m view.MessageState
	err := load.Eventually(a.t.Context(), load.Patience, func() (err error) {
		m, err = a.Client.Message(a.t.Context(), agent, sent.MessageID)
		if err == nil && (m.Entry.Status == ledger.Queued || m.Entry.Status == ledger.Dequeued) {
			err = fmt.Errorf("%s is %s", sent.MessageID, m.Entry.Status)
		}
		return err
	})
	if err != nil || m.Turn == nil || m.Turn.Kind != ledger.TurnCompleted {
		a.t.Fatalf("%s: %v, %+v\n%s", word, err, m, a.Tail())
	}
	return m.Turn.Last
}

// workspace makes a call of the operator, which must not fail by a fault of the daemon.
func (a *agents) workspace(agent, verb string, body object) error {
	a.t.Helper()
	err := a.Workspace(a.t.Context(), agent, verb, body)
	e, typed := errors.AsType[*state.Error](err)
	if err != nil && (!typed || wire.Status(e.Code) >= 500) {
		a.t.Errorf("%s %v: %v", verb, body, err)
	}
	return err
}

// use has an agent work in a repository, and returns its tree on the host.
func (a *agents) use(agent, repo string) string {
	a.t.Helper()
	expect.NoError(a.t, a.workspace(agent, "use", object{"path": repo}))
	return filepath.Join(a.home.AgentPrivateDir(agent), "workspaces", filepath.Base(repo))
}

// noSentinel fails the test if a file below a directory has the bait's content, or a link leads to it.
func (l *lab) noSentinel(dir string) {
	l.t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		data, err := os.ReadFile(path)
		if strings.Contains(string(data), sentinel) {
			l.t.Errorf("%s has what the agent must not see", path)
		}
		return err
	})
	expect.NoError(l.t, err)
}

// search looks for the sentinel wherever a command can look; the pattern is not the text that it looks for.
const search = `grep -rIlsE 'sentinel-5d1e[7]c22' / --exclude-dir=proc --exclude-dir=sys; ` +
	`cat /proc/[0-9]*/environ /proc/[0-9]*/cmdline 2>/dev/null | grep -aoE 'sentinel-5d1e[7]c22'; echo over`

// newRepo makes a repository of the user with one file, whose blob it names.
func (l *lab) newRepo(name, text string) (dir, blob string) {
	l.t.Helper()
	dir = filepath.Join(filepath.Dir(l.home), "roots", name)
	l.host("git", "init", "-q", "-b", "main", dir)
	expect.NoError(l.t, os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o644))
	l.host("git", "-C", dir, "add", "-A")
	l.host("git", "-C", dir, "-c", "user.name=A", "-c", "user.email=a@example.org", "commit", "-qm", "base")
	return dir, strings.TrimSpace(l.host("git", "-C", dir, "rev-parse", "HEAD:file"))
}

// What an agent has not attached can be neither read in its container, by objects or alternates, nor fetched by the
// host for it.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	own, _ := l.newRepo("own", "own\n")
	other, blob := l.newRepo("other", sentinel+"\n")
	forge := strings.NewReplacer("BLOB", blob, "OTHER", other).Replace(`
try() { name=$1; shift; if out=$("$@" 2>&1); then echo "$name	OK $out"; else echo "$name	denied"; fi; }
objects=$(ls /holon/objects); echo "objects	$(echo $objects | wc -w)"
try "write objects" touch /holon/objects/$objects/x
try "other home" ls /holon/workspaces/agent_home/.holon/../../second
try "blob" git cat-file -e BLOB
for dir in OTHER/.git/objects /holon/objects /holon/objects/../objects/second; do
	echo $dir >> $(git rev-parse --git-path objects/info/alternates)
done
try "blob by alternates" git cat-file -e BLOB
export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@localhost GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@localhost
tree=$(printf '100644 blob BLOB\tstolen\n' | git mktree --missing)
git update-ref HEAD $(git commit-tree -m forged -p HEAD $tree); echo "forged	$?"
ln -s OTHER/file link; echo "gitdir: OTHER/.git" > sub.git
`)
	a := l.serveAgents([]string{filepath.Dir(own)}, map[string]object{"forge": shell(forge), "search": shell(search)},
		"first", "second")
	a.use("second", other)
	a.use("first", own)
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z ]+)\t(.*)$`).FindAllStringSubmatch(a.ask("first", "forge"), -1) {
		got[m[1]] = m[2]
	}
	if want := map[string]string{"objects": "1", "write objects": "denied", "other home": "denied", "blob": "denied",
		"blob by alternates": "denied", "forged": "0"}; !maps.Equal(got, want) {
		t.Errorf("attempts %v, want %v", got, want)
	}
	for _, verb := range []string{"diff", "sync", "checkout", "apply"} {
		body := object{"workspace_id": own}
		if verb == "checkout" {
			body["branch"] = "taken"
		}
		t.Log(verb, a.workspace("first", verb, body))
	}
	if said := a.ask("first", "search"); strings.Contains(said, sentinel) || strings.Contains(said, "\n/") {
		t.Errorf("the agent finds %s", said)
	}
	l.noSentinel(own)
	l.noSentinel(a.home.AgentDir("first"))
	if out := l.host("git", "-C", own, "log", "--all", "-p"); strings.Contains(out, sentinel) {
		t.Error("a branch has it")
	}
}

// A tree that is not the directory that the host made is never followed, waited for or copied, and the agent gets
// another one.
func TestTreeReplaced(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	repo, _ := l.newRepo("own", "own\n")
	bait := l.bait()
	a := l.serveAgents([]string{filepath.Dir(repo)}, map[string]object{"work": shell("echo work >> work; pwd")}, "first")
	ways := map[string]func(tree string) error{
		"a link":  func(tree string) error { return os.Symlink(bait, tree) },
		"a pipe":  func(tree string) error { return syscall.Mkfifo(tree, 0o666) },
		"a file":  func(tree string) error { return os.WriteFile(tree, nil, 0o666) },
		"nothing": func(string) error { return nil },
	}
	for name, replace := range ways {
		tree := a.use("first", repo)
		a.ask("first", "work")
		gone := filepath.Join(filepath.Dir(l.home), "gone-"+strings.ReplaceAll(name, " ", "-"))
		expect.NoError(t, os.Rename(tree, gone))
		expect.NoError(t, replace(tree))
		for _, verb := range []string{"diff", "apply", "sync"} {
			if err := a.workspace("first", verb, object{"workspace_id": repo}); err == nil {
				t.Errorf("%s instead of the tree: %s succeeds", name, verb)
			}
		}
		l.noSentinel(repo)
		_ = a.workspace("first", "exit", object{})
		err := a.workspace("first", "use", object{"path": repo})
		if err == nil && !strings.Contains(a.ask("first", "work"), "own") {
			t.Errorf("%s instead of the tree: the agent has no other one", name)
		}
		_ = a.workspace("first", "exit", object{})
		expect.NoError(t, os.RemoveAll(tree))
	}
	for _, e := range must(os.ReadDir(bait))(t) {
		expect.Equal(t, e.Name(), string(must(os.ReadFile(filepath.Join(bait, e.Name())))(t)), sentinel+"\n")
	}
}

// A model can use what its operator allowed, by its real path, and finds out nothing about the rest.
func TestUseWorkspaceElsewhere(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	repo, _ := l.newRepo("own", "own\n")
	root := filepath.Dir(repo)
	bait := l.bait()
	l.host("git", "init", "-q", "--bare", filepath.Join(root, "bare"))
	expect.NoError(t, os.Symlink(bait, filepath.Join(root, "link")))
	expect.NoError(t, os.WriteFile(filepath.Join(root, "plain"), nil, 0o644))
	paths := map[string]string{ // kinds of errors
		"/": "workspace_not_allowed", "/etc": "workspace_not_allowed", "/nowhere": "workspace_not_allowed",
		bait: "workspace_not_allowed", root + "/../bait": "workspace_not_allowed", root + "/link": "workspace_not_allowed",
		root + "/own/../../bait": "workspace_not_allowed", filepath.Dir(root): "workspace_not_allowed",
		filepath.Dir(l.home) + "/h": "workspace_not_allowed", "/proc/self/root" + bait: "workspace_not_allowed",
		"/proc/self/cwd": "workspace_not_allowed", "own": "workspace_not_allowed|invalid_tool_input",
		"/holon/workspaces/agent_home/../../objects": "workspace_not_allowed|not_found",
		root + "/bare": "bare_repository", root + "/plain": "not_a_directory", root + "/nowhere": "not_a_directory",
		root + "/own\x00/x": "workspace_not_allowed|invalid_tool_input",
	}
	words, names := map[string]object{}, slices.Sorted(maps.Keys(paths))
	for i, path := range names {
		words[fmt.Sprintf("path-%d", i)] = object{"tool": "UseWorkspace", "arguments": object{"path": path}}
	}
	words["both"] = object{"tool": "UseWorkspace", "arguments": object{"path": repo, "workspace_id": "agent_home"}}
	words["own"] = object{"tool": "UseWorkspace", "arguments": object{"path": repo}}
	a := l.serveAgents([]string{root}, words, "first")
	for i, path := range names {
		said := a.ask("first", fmt.Sprintf("path-%d", i))
		named := func(kind string) bool { return strings.Contains(said, kind) }
		if !slices.ContainsFunc(strings.Split(paths[path], "|"), named) {
			t.Errorf("%q: %s, want %s", path, said, paths[path])
		}
	}
	expect.Contains(t, "the refusal of both", a.ask("first", "both"), "exactly one")
	expect.Contains(t, "the repository", a.ask("first", "own"), "/holon/workspaces/own")
	for _, path := range []string{"/", filepath.Dir(l.home) + "/h", root + "/bare", root + "/nowhere", root + "/plain"} {
		if err := a.workspace("first", "attach", object{"path": path}); err == nil {
			t.Errorf("the operator attaches %s", path)
		}
	}
}

// hostile exchanges all that is in a tree, and the tree itself, with links to the host's files, and goes on.
const hostile = `cd /holon/workspaces/own; (while :; do
	rm -rf d file .git/index; mkdir -p d; ln -s BAIT/file file; ln -s BAIT d/link; ln -sfn BAIT .git/objects2
	rm -rf d; ln -s BAIT d; rm file; mkfifo file; rm -f file d; echo x > file
	mv ../own ../moved && ln -s BAIT ../own; rm -f ../own; mv ../moved ../own
	mv .git .moved; ln -s BAIT .git; rm .git; mv .moved .git
done) >/dev/null 2>&1 & sleep 0.2; echo begun`

// While a container changes its trees as it likes, the operator gets a consistent change or a refusal, and nothing of
// the host.
func TestHostileTree(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	repo, _ := l.newRepo("own", "own\n")
	bait := l.bait()
	call := shell(strings.ReplaceAll(hostile, "BAIT", bait))
	call["arguments"].(object)["yield_time_ms"] = 500
	a := l.serveAgents([]string{filepath.Dir(repo)}, map[string]object{"attack": call}, "first")
	a.use("first", repo)
	a.ask("first", "attack")
	var group sync.WaitGroup
	for _, verb := range []string{"diff", "apply", "sync", "checkout"} {
		group.Go(func() {
			for n := range 6 {
				body := object{"workspace_id": repo}
				if verb == "checkout" {
					body["branch"] = fmt.Sprint("taken-", n)
				}
				_ = a.workspace("first", verb, body) // what is refused is logged there
			}
		})
	}
	group.Wait()
	l.noSentinel(repo)
	if out := l.host("git", "-C", repo, "log", "--all", "-p"); strings.Contains(out, sentinel) {
		t.Error("a branch has the bait")
	}
	for _, e := range must(os.ReadDir(bait))(t) {
		expect.Equal(t, e.Name(), string(must(os.ReadFile(filepath.Join(bait, e.Name())))(t)), sentinel+"\n")
	}
}
