package conversation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses"
	"holon/responses/client"
	"holon/runner"
	"holon/runner/workspace/landing"
	"holon/state"
	"holon/test/expect"
	"holon/test/gittest"
)

// code is the code of an error, of this side or of the protocol.
func code(err error) string { return runner.Describe(err).Code }

// Turns are found by their ids, by the owner alone, also by another process and from the turns when the log is lost.
func TestIndex(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Name: "mine", Workspace: l.repo})
	end := l.turn(x, "scripted/talk")
	item := end.Response.Output[0].ItemID()
	for _, reopen := range []func(){func() {}, l.open, func() {
		expect.NoError(t, os.Remove(filepath.Join(l.home.SessionDir(x.id), logFile)))
		l.open()
	}, func() {
		expect.NoError(t, os.WriteFile(filepath.Join(l.home.SessionDir(x.id), logFile), []byte("{\n"), 0o600))
		l.open()
	}} {
		reopen()
		for what, find := range map[string]func(owner string) (*Session, error){
			"response": func(owner string) (*Session, error) { return l.OfResponse(owner, end.Response.ID) },
			"turn":     func(owner string) (*Session, error) { return l.OfTurn(owner, end.TurnID) },
			"item":     func(owner string) (*Session, error) { return l.OfItem(owner, item) },
			"name":     func(owner string) (*Session, error) { return l.Find(owner, "mine") },
			"id":       func(owner string) (*Session, error) { return l.Find(owner, x.id) },
		} {
			for _, owner := range []string{"ann", ""} {
				if found, err := find(owner); err != nil || found.id != x.id {
					t.Errorf("%s of %q: %v", what, owner, err)
				}
			}
			if _, err := find("bob"); err == nil {
				t.Errorf("bob finds the %s", what)
			}
		}
		_, foreign := l.OfResponse("bob", end.Response.ID)
		_, unknown := l.OfResponse("bob", "resp_x")
		expect.Equal(t, "foreign", strings.ReplaceAll(foreign.Error(), end.Response.ID, "resp_x"), unknown.Error())
		if _, err := l.OfResponse("ann", item); err == nil {
			t.Error("an item is found as a response")
		}
	}
	info := x.Info()
	expect.Equal(t, "turns", info.Usage.Turns, 1)
	expect.Equal(t, "list", len(l.List("ann"))+len(l.List(""))+len(l.List("bob")), 2)
}

// What a kill leaves at any moment is read; what cannot be is set aside and hides nothing else.
func TestDamage(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	good, torn, bad := l.start(Ask{Name: "good"}), l.start(Ask{Name: "torn"}), l.start(Ask{Name: "bad"})
	_, err := torn.begin("turn_1", func(error) {})
	expect.NoError(t, err)
	log, err := os.OpenFile(torn.dir(logFile), os.O_APPEND|os.O_WRONLY, 0)
	expect.NoError(t, err)
	_, err = log.WriteString(`{"at":"2026-01-01T00:00:00.000Z","tur`)
	expect.NoError(t, errors.Join(err, log.Close()))
	expect.NoError(t, os.WriteFile(bad.dir(recordFile), []byte(`{"schema":"holon.conversation/1"`), 0o600))
	expect.NoError(t, os.WriteFile(good.dir(".holon-tmp-1"), []byte("{"), 0o600))
	expect.NoError(t, os.Mkdir(l.home.SessionDir("ses_begun"), 0o700))
	expect.NoError(t, os.MkdirAll(filepath.Join(l.home.SessionsDir(), removedPrefix+"ses_2", "x"), 0o700))
	l.open()
	expect.Equal(t, "sessions", len(l.List("")), 2)
	expect.Contains(t, "log", l.log.b.String(), bad.id)
	found, err := l.OfTurn("ann", "turn_1")
	expect.NoError(t, err)
	found.end("turn_1", runner.End{}, errors.New("there is no container"))
	for _, reopen := range []func(){func() {}, l.open} { // a turn that never began is none
		reopen()
		_, err = l.OfTurn("ann", "turn_1")
		expect.Equal(t, "code", code(err), responses.CodeTurnNotFound)
	}
	left, err := filepath.Glob(filepath.Join(l.home.SessionsDir(), "*"))
	expect.NoError(t, err)
	expect.Equal(t, "files", len(left), 4) // with the audit
	if _, err := l.Find("ann", "bad"); code(err) != string(CodeNotFound) {
		t.Errorf("the damaged one: %v", err)
	}
}

// A name is its owner's; where a session may work is decided with links resolved.
func TestStart(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	src := filepath.Dir(l.repo)
	plain, outside := filepath.Join(src, "plain"), filepath.Join(l.dir, "outside")
	link, in := filepath.Join(src, "link"), filepath.Join(l.dir, "in")
	expect.NoError(t, errors.Join(os.Mkdir(plain, 0o700), os.Mkdir(outside, 0o700), os.Symlink(outside, link),
		os.Symlink(plain, in), os.Mkdir(filepath.Join(l.repo, "sub"), 0o700)))
	first := l.start(Ask{Name: "mine", Workspace: in})
	expect.Equal(t, "workspace", first.Info().Workspace, plain)
	expect.Equal(t, "again", l.start(Ask{Name: "mine"}), first)
	if l.start(Ask{Name: "mine", Owner: "bob"}) == first {
		t.Error("bob has the session of ann")
	}
	for _, tc := range []struct {
		ask         Ask
		code, param string
	}{
		{Ask{Name: "mine", Workspace: l.repo}, string(CodeConflict), fieldWorkspace},
		{Ask{Name: "mine", Image: "other"}, string(CodeConflict), fieldImage},
		{Ask{Name: "no name"}, responses.CodeInvalidValue, fieldName},
		{Ask{Name: "ses_1"}, string(CodeNotFound), fieldName},
		{Ask{Image: "an image"}, responses.CodeInvalidValue, fieldImage},
		{Ask{Workspace: "src/app"}, responses.CodeInvalidValue, fieldWorkspace},
		{Ask{Workspace: outside}, string(CodeNotAllowed), fieldWorkspace},
		{Ask{Workspace: link}, string(CodeNotAllowed), fieldWorkspace},
		{Ask{Workspace: filepath.Join(outside, "missing")}, string(CodeNotAllowed), fieldWorkspace},
		{Ask{Workspace: src + "/../home"}, string(CodeNotAllowed), fieldWorkspace},
		{Ask{Workspace: filepath.Join(src, "missing")}, responses.CodeInvalidValue, fieldWorkspace},
		{Ask{Workspace: filepath.Join(l.repo, "file.txt")}, responses.CodeInvalidValue, fieldWorkspace},
	} {
		tc.ask.Owner = "ann"
		_, err := l.Start(t.Context(), tc.ask)
		if f := runner.Describe(err); err == nil || f.Code != tc.code || f.Param != tc.param {
			t.Errorf("%+v: %v (%s, %s)", tc.ask, err, f.Code, f.Param)
		}
	}
	expect.NoError(t, errors.Join(os.Remove(plain), os.Symlink(outside, plain)))
	_, err := l.Tree(t.Context(), first.id, nil)
	expect.Equal(t, "a workspace that was replaced", code(err), string(CodeNotAllowed))
	l.opts.Roots = []string{filepath.Join(l.repo, "sub")} // whose repository lies above
	l.open()
	_, err = l.Start(t.Context(), Ask{Owner: "ann", Workspace: filepath.Join(l.repo, "sub")})
	expect.Equal(t, "code", code(err), string(CodeNotAllowed))
	audit, err := os.ReadFile(filepath.Join(l.home.SessionsDir(), auditFile))
	expect.NoError(t, err)
	expect.Equal(t, "opened", strings.Count(string(audit), `"opened"`), 2)
}

// Limits are typed, and say when to ask again.
func TestLimits(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*Options)
		do     func(l *lab, x *Session) error
	}{
		"sessions of an owner": {func(o *Options) { o.Limits.Sessions = 1 }, func(l *lab, _ *Session) error {
			l.start(Ask{Owner: "bob"})
			_, err := l.Start(l.Context(), Ask{Owner: "ann"})
			return err
		}},
		"sessions": {func(o *Options) { o.Max = 1 }, func(l *lab, _ *Session) error {
			_, err := l.Start(l.Context(), Ask{Owner: "bob"})
			return err
		}},
		"turns of a session":  {func(o *Options) { o.Limits.Session.Turns = 1 }, another},
		"tokens of a session": {func(o *Options) { o.Limits.Session.Tokens = 10 }, another},
		"cost of an owner":    {func(o *Options) { o.Limits.Owner.Cost = 5 }, another},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLab(t, tc.change)
			x := l.start(Ask{})
			_, err := x.begin("turn_1", func(error) {})
			expect.NoError(t, err)
			account := &state.Account{Usage: state.Usage{Cost: 5}}
			account.Total = 10
			x.end("turn_1", runner.End{Account: account}, nil)
			limited, ok := errors.AsType[*Limited](tc.do(l, x))
			if !ok || code(limited) != string(CodeLimit) || limited.RetryAfter() < time.Second {
				t.Errorf("%v", limited)
			}
		})
	}
}

func another(l *lab, x *Session) error {
	l.open()
	x, err := l.Find("", x.id)
	if err == nil {
		_, err = x.begin("turn_2", func(error) {})
	}
	return err
}

// The change of a session goes to the operator's files once, also when more comes, and stays after the end.
func TestChange(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo, Name: "mine"})
	diff, err := x.Diff(t.Context())
	if err != nil || len(diff.Files) != 0 {
		t.Fatalf("before the first turn: %v", err)
	}
	l.turn(x, "scripted/talk")
	before := gittest.Contents(t, l.repo)
	diff, err = x.Diff(t.Context())
	expect.NoError(t, err)
	expect.Equal(t, "files", len(diff.Files), 2)
	expect.Equal(t, "the operator's", gittest.Contents(t, l.repo)["file.txt"], before["file.txt"])
	made, err := x.Checkout(t.Context(), Checkout{}, "ann")
	expect.NoError(t, err)
	expect.Contains(t, "branch", gittest.Run(t, l.repo, "git", "branch", "--list", made.Branch), "mine")
	for _, files := range []int{2, 0} {
		done, err := x.Apply(t.Context(), false, "ann")
		expect.NoError(t, err)
		expect.Equal(t, "written", len(done.Written), files)
	}
	l.open() // the tree, and what it goes on from, is found again
	x, err = l.Find("ann", "mine")
	expect.NoError(t, err)
	l.turn(x, "scripted/talk")
	for range 2 {
		m, err := x.Close(t.Context(), "ann")
		expect.NoError(t, err)
		expect.Equal(t, "changed", len(m.Workspace.Changes.Files), 1)
		expect.Equal(t, "tokens", m.ModelUsage.Total, 20)
	}
	_, err = x.Turn(t.Context(), "turn_late", "", l.post(x, ""))
	expect.Equal(t, "a turn", code(err), string(CodeClosed))
	expect.NoError(t, x.Do(t.Context(), func(ctx context.Context, agent *client.Client) error { // what was said stays
		_, err := agent.GetResponse(ctx, x.Info().ResponseIDs[1])
		return err
	}))
	done, err := x.Apply(t.Context(), false, "ann")
	expect.NoError(t, err)
	expect.Equal(t, "applied", gittest.Contents(t, l.repo)["file.txt"], "agent\nmore\n")
	expect.Equal(t, "written", len(done.Written), 1)
}

// A session without a workspace has a tree of its own, which no directory gets.
func TestEmpty(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	gittest.Run(t, l.dir, "git", "init", "-q") // a repository around the home is not the session's
	x := l.start(Ask{})
	held, err := l.Tree(t.Context(), x.id, nil)
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, "a"), []byte("a\n"), 0o600))
	_, err = x.Apply(t.Context(), false, "ann")
	expect.Equal(t, "apply", code(err), string(CodeNothing))
	m, err := x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Equal(t, "files", len(m.Workspace.Changes.Files), 1)
	gone := func(x *Session) {
		t.Helper()
		if _, err := os.Lstat(x.dir(treeDir)); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the tree: %v", err)
		}
	}
	gone(x)
	lost := l.start(Ask{})
	_, err = l.Tree(t.Context(), lost.id, nil)
	expect.NoError(t, err)
	expect.NoError(t, lost.amend(func(r *record) error {
		r.Tree = nil // as before a process was killed that had made it
		return nil
	}))
	l.open()
	gone(lost)
	expect.Equal(t, "status", x.Info().Status, StatusClosed)
}

// What a kill cut off of a closing is finished by the next process, with the same result.
func TestCutOff(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	var all []string
	for _, far := range []func(*Session) error{
		func(*Session) error { return nil },
		func(x *Session) error { return x.writeManifest(t.Context(), x.describe(x.snapshot())) },
	} {
		x := l.start(Ask{})
		held, err := l.Tree(t.Context(), x.id, nil)
		expect.NoError(t, err)
		expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, "a"), []byte("a\n"), 0o600))
		expect.NoError(t, x.amend(func(r *record) error {
			r.ClosedAt, r.ClosedBy = l.now(), "ann"
			return nil
		}))
		expect.NoError(t, far(x))
		all = append(all, x.id)
	}
	l.open()
	ctx, stop := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- l.Sessions.Run(ctx) }()
	for _, id := range all {
		x, err := l.Find("", id)
		expect.NoError(t, err)
		l.wait("its end", func() bool { return x.snapshot().Finished })
		m, err := x.manifest()
		expect.NoError(t, err)
		expect.Equal(t, "files", len(m.Workspace.Changes.Files), 1)
	}
	stop()
	<-ran
}

// Files that programs execute need consent.
func TestExecuted(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo})
	held, err := l.Tree(t.Context(), x.id, nil)
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(held.TreeDir, ".envrc"), []byte("x\n"), 0o600))
	_, err = x.Apply(t.Context(), false, "ann")
	expect.Equal(t, "apply", code(err), landing.CodeExecutedFiles)
	_, err = x.Apply(t.Context(), true, "ann")
	expect.NoError(t, err)
}

// Closing ends turns; a turn that goes on without its process is taken up by the next, and has one end.
func TestLeftTurn(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Workspace: l.repo})
	ctx, leave := context.WithCancelCause(t.Context())
	left := make(chan error)
	go func() {
		_, err := x.Turn(ctx, "turn_slow", "scripted/slow", l.post(x, "scripted/slow"))
		left <- err
	}()
	l.wait("a response", func() bool { return len(x.Info().ResponseIDs) == 1 })
	expect.Equal(t, "activity", x.Info().Activity, "running")
	leave(runner.ErrLeft)
	if err := <-left; err == nil {
		t.Fatal("it has ended")
	}
	l.open()
	x, err := l.OfTurn("ann", "turn_slow")
	expect.NoError(t, err)
	running, stop := context.WithCancel(t.Context())
	ran := make(chan error)
	go func() { ran <- l.Sessions.Run(running) }()
	l.wait("it is taken up", func() bool { return x.Info().Activity == "running" })
	m, err := x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Equal(t, "turn", m.Turn.TurnID, "turn_slow")
	l.wait("its end", func() bool { return x.Info().Usage.Turns == 1 })
	stop()
	<-ran
	l.open()
	expect.Equal(t, "left", len(l.leftTurns()), 0)
}

// An idle session is closed, and a closed one is removed, when their time has come and not before.
func TestTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		home, err := state.MakeHome(dir, "")
		expect.NoError(t, err)
		l := &lab{T: t, home: home}
		l.opts = Options{Home: home, Pool: l, TTL: time.Hour, Keep: 2 * time.Hour, Log: slog.New(slog.DiscardHandler)}
		l.open()
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = l.Sessions.Run(ctx) })
		x := l.start(Ask{Name: "old"})
		statuses := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for _, info := range l.List("") {
				got += info.Name + " " + info.Status + ";"
			}
			expect.Equal(t, "sessions", got, want)
		}
		time.Sleep(59 * time.Minute)
		_, err = x.begin("turn_1", func(error) {})
		expect.NoError(t, err)
		time.Sleep(2 * time.Hour) // it is in use
		statuses("old open;")
		x.end("turn_1", runner.End{}, nil)
		time.Sleep(59 * time.Minute)
		l.start(Ask{Name: "new"})
		statuses("new open;old open;")
		time.Sleep(time.Minute)
		statuses("new open;old closed;")
		time.Sleep(59 * time.Minute)
		statuses("new closed;old closed;")
		time.Sleep(time.Hour + time.Minute)
		statuses("new closed;")
		l.start(Ask{Name: "once", Once: true})
		failed := l.start(Ask{Name: "failed"})
		_, err = failed.begin("turn_2", func(error) {})
		expect.NoError(t, err)
		failed.end("turn_2", runner.End{}, errors.New("there is no such image"))
		time.Sleep(59 * time.Second)
		statuses("failed open;once open;new closed;")
		time.Sleep(time.Second)
		statuses("failed closed;once closed;new closed;")
		stop()
		running.Wait()
		l.open()
		expect.Equal(t, "sessions", len(l.List("")), 3)
	})
}

// A process that is killed at any moment leaves records that are read, with every turn that it was asked for.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	l := &lab{T: t, home: home}
	l.opts = Options{Home: home, Pool: l, Log: slog.New(slog.NewTextHandler(&l.log, nil))}
	for round := range rounds {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestVictim$")
		cmd.Env = append(os.Environ(), "HOLON_TEST_VICTIM="+home.Dir())
		out, err := cmd.StdoutPipe()
		expect.NoError(t, errors.Join(err, cmd.Start()))
		turns, lines := []string{}, bufio.NewScanner(out)
		for lines.Scan() {
			if turns = append(turns, lines.Text()); len(turns) > 3*round {
				expect.NoError(t, cmd.Process.Kill())
			}
		}
		_ = cmd.Wait() // it was killed
		l.open()
		expect.Equal(t, "the log", l.log.b.String(), "")
		for _, id := range turns {
			if _, err := l.OfTurn("ann", id); strings.HasPrefix(id, "turn_") && err != nil {
				t.Errorf("after %d turns: %v", len(turns), err)
			}
		}
	}
}

// TestVictim is the process of TestKilled: it uses sessions, and prints each turn that it may ask for.
func TestVictim(t *testing.T) {
	dir := os.Getenv("HOLON_TEST_VICTIM")
	if dir == "" {
		t.Skip("it is a part of TestKilled")
	}
	home, err := state.FindHome(dir, "")
	expect.NoError(t, err)
	l := &lab{T: t, home: home}
	l.opts = Options{Home: home, Pool: l, Log: slog.New(slog.DiscardHandler)}
	l.open()
	for {
		x := l.start(Ask{})
		for range 3 {
			id := responses.NewID(responses.PrefixTurn)
			_, err := x.begin(id, func(error) {})
			expect.NoError(t, err)
			fmt.Println(id)
			r := &recorder{session: x, turn: id}
			r.accepted(responses.NewID(responses.PrefixResponse))
			r.record(line{Item: responses.NewID(responses.PrefixMessage)})
			x.end(id, runner.End{}, nil)
		}
		_, err := x.Close(t.Context(), "ann")
		expect.NoError(t, err)
	}
}
