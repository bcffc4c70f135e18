package conversation

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"holon/internal/folder"
	"holon/responses"
	"holon/responses/client"
	"holon/runner"
	"holon/runner/pool"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/test/expect"
	"holon/test/gittest"
)

// three is a conversation whose last turn calls no tool.
const three = write + `- rounds: [{text: "nothing to do"}]
`

// content is that of the files in the tree of a session.
func content(x *Session) string {
	out := ""
	for _, name := range []string{"file.txt", "new.txt"} {
		data, err := os.ReadFile(filepath.Join(x.snapshot().Tree.TreeDir, name))
		if err == nil {
			out += name + " " + strings.ReplaceAll(string(data), "\n", " ")
		}
	}
	return strings.TrimSpace(out)
}

// rewind goes back, with the tree.
func (l *lab) rewind(x *Session, responseID string) Rewound {
	l.Helper()
	done, err := x.Rewind(l.Context(), responseID, false, "ann")
	expect.NoError(l, err)
	expect.Equal(l, "tree restored", done.TreeRestored, true)
	expect.Equal(l, "current", x.Current(), responseID)
	return done
}

func (l *lab) turns(x *Session) (text string) {
	l.Helper()
	list, err := x.Turns()
	expect.NoError(l, err)
	for _, t := range list {
		previous := "-"
		for i, other := range list {
			if other.ResponseID == t.PreviousResponseID {
				previous = fmt.Sprint(i + 1)
			}
		}
		text += fmt.Sprintf("%s after %s: %s, %s, kept %v, current %v\n", t.Status, previous, t.Input, t.Text, t.Kept,
			t.Current)
	}
	return text
}

// A session goes back with its tree and its conversation, and to the branch that it left.
func TestRewind(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	l.play(three)
	x := l.start(Ask{Workspace: l.repo, Name: "mine"})
	_, err := x.Rewind(t.Context(), "", false, "ann")
	expect.NoError(t, err) // it is there
	var made []string
	for range 3 {
		made = append(made, l.turn(x).ResponseID)
	}
	const first, more = "file.txt agent new.txt new", "file.txt agent more new.txt new"
	expect.Equal(t, "turns", l.turns(x), `completed after -: go on, done, kept true, current false
completed after 1: go on, done, kept true, current false
completed after 2: go on, nothing to do, kept true, current true
`)
	expect.Equal(t, "files", content(x), more)
	l.rewind(x, made[0])
	expect.Equal(t, "files after the first", content(x), first)
	l.open() // another process finds the same
	x, err = l.Find("ann", "mine")
	expect.NoError(t, err)
	expect.Equal(t, "current", x.Info().Current, made[0])
	other := l.turn(x)
	expect.Equal(t, "previous", *other.Response.PreviousResponseID, made[0])
	expect.Equal(t, "files of the other branch", content(x), more)
	late := filepath.Join(x.snapshot().Tree.TreeDir, "late.txt") // what a program writes after the last turn
	expect.NoError(t, os.WriteFile(late, []byte("late\n"), 0o600))
	l.rewind(x, "")
	expect.Equal(t, "files at the beginning", content(x), "file.txt file")
	if _, err := os.Lstat(late); err == nil {
		t.Error("a later file stays")
	}
	l.rewind(x, other.ResponseID)
	expect.Equal(t, "files of the other branch", content(x), more)
	if _, err := os.Lstat(late); err != nil {
		t.Errorf("what was left is lost: %v", err)
	}
	l.rewind(x, made[2])
	expect.Equal(t, "files of the third", content(x), more)
	expect.Equal(t, "turns", l.turns(x), `completed after -: go on, done, kept true, current false
completed after 1: go on, done, kept true, current false
completed after 2: go on, nothing to do, kept true, current true
completed after 1: go on, done, kept true, current false
`)
	expect.Equal(t, "the operator's", gittest.Contents(t, l.repo)["file.txt"], "file\n")
	audit, err := os.ReadFile(filepath.Join(l.home.SessionsDir(), auditFile))
	expect.NoError(t, err)
	expect.Equal(t, "audited", strings.Count(string(audit), `"rewound"`), 5)
	held := *x.snapshot().Tree
	_, err = x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	marks, err := workspace.Marks(held)
	expect.NoError(t, err)
	expect.Equal(t, "marks", len(marks), 0)
	_, err = x.Rewind(t.Context(), made[0], false, "ann")
	expect.Equal(t, "a closed one", code(err), string(CodeClosed))
}

// What cannot be gone back to is refused, with what to do instead, and nothing changes.
func TestRewindRefused(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo})
	first, second := l.turn(x), l.turn(x)
	refused := func(what, responseID string, want state.Code) {
		t.Helper()
		before := content(x)
		_, err := x.Rewind(t.Context(), responseID, false, "ann")
		expect.Equal(t, what, code(err), string(want))
		expect.Equal(t, what+": current", x.Current(), second.ResponseID)
		expect.Equal(t, what+": files", content(x), before)
	}
	refused("an unknown response", "resp_x", state.Code(responses.CodeNotFound))
	_, err := x.begin("turn_going", "", func(error) {})
	expect.NoError(t, err)
	refused("a turn goes on", first.ResponseID, CodeBusy)
	x.end("turn_going", runner.End{}, errors.New("there is no container"))

	dir := x.snapshot().Tree.TreeDir
	expect.NoError(t, os.Remove(filepath.Join(dir, "new.txt")))
	gittest.Write(t, dir, map[string]string{".gitignore": "new.txt\n", "new.txt/ignored": "mine\n"})
	refused("an ignored file in the way", first.ResponseID, "merge_conflict")
	expect.NoError(t, os.RemoveAll(filepath.Join(dir, "new.txt")))

	expect.NoError(t, os.Remove(filepath.Join(x.snapshot().Tree.Slot, "git/refs/turns", first.TurnID)))
	refused("a tree that was not kept", first.ResponseID, CodeNotKept)
	before := content(x)
	done, err := x.Rewind(t.Context(), first.ResponseID, true, "ann")
	expect.NoError(t, err)
	expect.Equal(t, "restored", done.TreeRestored, false)
	expect.Equal(t, "current", x.Current(), first.ResponseID)
	expect.Equal(t, "files", content(x), before)
	l.rewind(x, second.ResponseID)
}

// A container goes on with the files that were brought back, also one that is made later.
func TestRewindDocker(t *testing.T) {
	t.Parallel()
	l := newDockerLab(t, `
turns:
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "echo agent > file.txt; mkdir d; echo new > d/new.txt"}}]}, {text: done}]
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "echo more >> file.txt; echo more >> d/new.txt"}}]}, {text: done}]
- rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: "rm -r file.txt d"}}]}, {text: done}]
`)
	x := l.start(Ask{Workspace: l.repo})
	first := l.turn(x)
	l.turn(x)
	third := l.turn(x)
	for range 2 {
		l.rewind(x, first.ResponseID)
		expect.Equal(t, "files", content(x), "file.txt agent")
		l.turn(x) // the second again, of the same container
		expect.Equal(t, "files", content(x), "file.txt agent more")
		data, err := os.ReadFile(filepath.Join(x.snapshot().Tree.TreeDir, "d/new.txt"))
		expect.NoError(t, err)
		expect.Equal(t, "a new file", string(data), "new\nmore\n")
		l.rewind(x, third.ResponseID)
		expect.Equal(t, "files", content(x), "")
		expect.NoError(t, l.pool.Stop(t.Context(), x.id)) // and once there is none
	}
}

// alone are containers of which there is none, where nothing runs.
type alone struct{ none }

func (alone) Still(ctx context.Context, _ string, fn func(context.Context, *folder.Owner) error) error {
	return fn(ctx, nil)
}

func (alone) Do(context.Context, pool.Turn, func(context.Context, *client.Client) error) error {
	return nil
}

// A process that is killed at any moment of going back leaves the tree and the conversation of the same response.
func TestKilledWhileRewinding(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 12
	}
	l := labOfVictims(t, alone{})
	l.opts.Borrowing = noBorrowing
	changed := 0
	for round := range rounds {
		last, n := "", 0
		l.runVictim("TestRewindVictim", func(line string) (kill bool) {
			if n > round%8 { // it is killed, and printed this before
				return true
			}
			if last, n = line, n+1; n <= round%8 {
				return false
			}
			awaitStep(t, l, round%3)
			return true
		})
		l.open()
		x := l.List("")[0]
		found, err := l.Find("", x.ID)
		expect.NoError(t, err)
		l.wait("what the killed one began has ended", func() bool {
			return found.withTree(t.Context(), func(context.Context, *workspace.Tree) error { return nil }) == nil
		})
		data, err := os.ReadFile(filepath.Join(found.snapshot().Tree.TreeDir, "response"))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		expect.Equal(t, fmt.Sprint("the tree of round ", round), string(data), found.Current())
		if found.Current() != last {
			changed++
		}
		expect.Equal(t, "the log", l.log.b.String(), "")
	}
	t.Logf("%d of %d rounds were cut off", changed, rounds)
}

// awaitStep waits until a process that goes back has come so far: nowhere, files are staged, or it is decided.
func awaitStep(t *testing.T, l *lab, step int) {
	record, err := filepath.Glob(filepath.Join(l.home.SessionsDir(), "*", recordFile))
	expect.NoError(t, err)
	r, err := readRecord(filepath.Dir(record[0]), filepath.Base(filepath.Dir(record[0])))
	expect.NoError(t, err)
	before, err := workspace.Note(*r.Tree)
	expect.NoError(t, err)
	for end := time.Now().Add(patience); step > 0 && time.Now().Before(end); runtime.Gosched() {
		if _, err := os.Lstat(filepath.Join(r.Tree.Slot, "staged")); step == 1 && err == nil {
			return
		}
		if now, err := workspace.Note(*r.Tree); step == 2 && err == nil && now != before {
			return
		}
	}
}

// TestRewindVictim is the process of TestKilledWhileRewinding: it makes turns, each of which writes which one it is, or
// takes up the session of the one before, and goes back and forth. It prints what is current before each time.
func TestRewindVictim(t *testing.T) {
	l := asVictim(t, alone{}, "TestKilledWhileRewinding")
	l.opts.Borrowing = noBorrowing
	l.open()
	if len(l.List("")) == 0 {
		x := l.start(Ask{})
		held, err := x.tree(t.Context())
		expect.NoError(t, err)
		for n := range 4 {
			id, response := responses.NewID(responses.PrefixTurn), responses.NewID(responses.PrefixResponse)
			_, err := x.begin(id, "", func(error) {})
			expect.NoError(t, err)
			(&recorder{session: x, turn: id}).accepted(response)
			expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, "response"), []byte(response), 0o600))
			gittest.Write(t, held.TreeDir, map[string]string{fmt.Sprintf("more/%d", n): "x\n", "n": fmt.Sprintln(n)})
			x.end(id, runner.End{Response: &responses.Response{Status: responses.StatusCompleted, Store: true}}, nil)
		}
	}
	x, err := l.Find("", l.List("")[0].ID)
	expect.NoError(t, err)
	for n := 0; ; n++ {
		for _, to := range append(x.Info().ResponseIDs, "") {
			fmt.Println(x.Current())
			l.rewind(x, to)
		}
	}
}

func noBorrowing() git.Borrowing { return git.Borrowing{} }
