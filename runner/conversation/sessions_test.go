package conversation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/state"
	"holon/test/expect"
)

// code is the code of an error, of this side or of the protocol.
func code(err error) string { return runner.Describe(err).Code }

// Turns are found by their ids, by the owner alone, also by another process and from the turns when the log is lost.
func TestIndex(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{Name: "mine", Workspace: l.repo})
	end := l.turn(x)
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
	_, err := first.tree(t.Context())
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
		"disk of an owner": {func(o *Options) { o.Limits.Disk = 1 }, func(l *lab, x *Session) error {
			_, err := x.Turn(l.Context(), "turn_2", "", "go on", nil)
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
			_, err := x.begin("turn_1", "", func(error) {})
			expect.NoError(t, err)
			account := &state.Account{Usage: state.Usage{Cost: 5}}
			account.Total = 10
			x.end("turn_1", runner.End{Account: account}, nil)
			limited, ok := errors.AsType[*Limited](tc.do(l, x))
			if !ok || code(limited) != string(CodeLimit) || limited.RetryAfter() != retryAfter {
				t.Errorf("%v", limited)
			}
		})
	}
}

// A turn for which no provider was asked counts as its container counts, within bounds: that one is not trusted.
func TestUsageOfScript(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	x := l.start(Ask{})
	for i, u := range []responses.Usage{{InputTokens: 7, OutputTokens: 3}, {InputTokens: -50, OutputTokens: math.MinInt64}} {
		turn := fmt.Sprint("turn_", i)
		_, err := x.begin(turn, "", func(error) {})
		expect.NoError(t, err)
		x.end(turn, runner.End{Response: &responses.Response{Status: responses.StatusCompleted, Usage: &u}}, nil)
		expect.Equal(t, "tokens", x.log.usage().Tokens, 10)
	}
}

// A session that nothing needs gives its place to another: one for a single request at once, one without a name that made
// one turn after a while. None that has a name, had a second turn or is in use does, and none of another owner for the
// share of one.
func TestRoom(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		home, err := state.MakeHome(dir, "")
		expect.NoError(t, err)
		l := &lab{T: t, home: home}
		l.opts = Options{Home: home, Pool: none{}, Max: 4, Limits: Limits{Sessions: 3}, TTL: 24 * time.Hour,
			Log: slog.New(slog.DiscardHandler)}
		l.open()
		names, turns := map[string]string{}, 0
		start := func(name string, a Ask) *Session {
			t.Helper()
			x := l.start(a)
			names[x.id] = name
			return x
		}
		used := func(x *Session) *Session {
			turns++
			id := fmt.Sprintf("turn_%d", turns)
			_, err := x.begin(id, "", func(error) {})
			expect.NoError(t, err)
			x.end(id, runner.End{}, nil)
			time.Sleep(time.Second)
			return x
		}
		open := func(want string) {
			t.Helper()
			var are []string
			for _, info := range l.List("") {
				if info.Status == StatusOpen {
					are = append(are, names[info.ID])
				}
			}
			slices.Sort(are)
			expect.Equal(t, "open", strings.Join(are, " "), want)
		}
		full := func(owner string) {
			t.Helper()
			_, err := l.Start(t.Context(), Ask{Owner: owner})
			limited, ok := errors.AsType[*Limited](err)
			if !ok || limited.RetryAfter() != retrySoon { // one for a single request is open
				t.Errorf("one more: %v", err)
			}
		}
		start("new", Ask{Owner: "ann", Once: true})
		used(start("bobs", Ask{Owner: "bob", Once: true}))
		used(start("named", Ask{Owner: "ann", Name: "named"}))
		single := used(start("single", Ask{Owner: "ann"}))
		full("ann")
		start("cys", Ask{Owner: "cy"})
		open("cys named new single")
		full("cy")
		time.Sleep(idleOnce)
		start("more", Ask{Owner: "ann"})
		open("cys more named new")
		if info := single.Info(); info.Status != StatusClosed {
			t.Errorf("the session that gave its place: %+v", info)
		}
		full("ann")
		full("cy")
	})
}

func another(l *lab, x *Session) error {
	l.open()
	x, err := l.Find("", x.id)
	if err == nil {
		_, err = x.begin("turn_2", "", func(error) {})
	}
	return err
}

// An idle session is closed, and a closed one is removed, when their time has come and not before.
func TestTime(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		home, err := state.MakeHome(dir, "")
		expect.NoError(t, err)
		l := &lab{T: t, home: home}
		l.opts = Options{Home: home, Pool: none{}, TTL: time.Hour, Keep: 2 * time.Hour, Log: slog.New(slog.DiscardHandler)}
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
		_, err = x.begin("turn_1", "", func(error) {})
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
		_, err = failed.begin("turn_2", "", func(error) {})
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
