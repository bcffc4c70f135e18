package conversation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/responses/client"
	"holon/runner"
	"holon/state"
	"holon/test/expect"
)

// What a kill leaves at any moment is read; what cannot be is set aside and hides nothing else.
func TestDamage(t *testing.T) {
	t.Parallel()
	l := newLab(t, nil)
	good, torn, bad := l.start(Ask{Name: "good"}), l.start(Ask{Name: "torn"}), l.start(Ask{Name: "bad"})
	_, err := torn.begin("turn_1", "", func(error) {})
	expect.NoError(t, err)
	log, err := os.OpenFile(torn.dir(logFile), os.O_APPEND|os.O_WRONLY, 0)
	expect.NoError(t, err)
	_, err = log.WriteString(`{"at":"2026-01-01T00:00:00.000Z","tur`)
	expect.NoError(t, errors.Join(err, log.Close()))
	expect.NoError(t, os.WriteFile(bad.dir(recordFile), []byte(`{"schema":"holon.conversation/1"`), 0o600))
	expect.NoError(t, os.WriteFile(good.dir(".tmp-0123456789abcdef"), []byte("{"), 0o600))
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
	half, err := filepath.Glob(good.dir(".tmp-*"))
	expect.NoError(t, err)
	expect.Equal(t, "halves of files", len(half), 0)
	if _, err := l.Find("ann", "bad"); code(err) != string(CodeNotFound) {
		t.Errorf("the damaged one: %v", err)
	}
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
		held, err := x.tree(t.Context())
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
	stop := l.run()
	for _, id := range all {
		x, err := l.Find("", id)
		expect.NoError(t, err)
		l.wait("its end", func() bool { return x.snapshot().Finished })
		m, err := x.manifest()
		expect.NoError(t, err)
		expect.Equal(t, "files", len(m.Workspace.Changes.Files), 1)
	}
	stop()
}

// A turn goes on without its holon; the next one takes it up, and it has one end. Closing ends turns.
func TestLeftTurn(t *testing.T) {
	t.Parallel()
	l := newDockerLab(t, slow)
	x := l.start(Ask{Workspace: l.repo})
	l.leave(x, "turn_slow")
	l.restart()
	x, err := l.OfTurn("ann", "turn_slow")
	expect.NoError(t, err)
	stop := l.run()
	l.wait("it is taken up", func() bool { return x.Info().Activity == "running" })
	m, err := x.Close(t.Context(), "ann")
	expect.NoError(t, err)
	expect.Equal(t, "turn", m.Turn.TurnID, "turn_slow")
	l.wait("its end", func() bool { return x.Info().Usage.Turns == 1 })
	stop()
	l.open()
	expect.Equal(t, "left", len(l.leftTurns()), 0)
	expect.NoError(t, x.Do(t.Context(), func(ctx context.Context, agent *client.Client) error {
		resp, err := agent.GetResponse(ctx, m.Turn.ResponseID)
		if err == nil {
			expect.Equal(t, "status", resp.Status, responses.StatusCancelled)
		}
		return err
	}))
}

// A process that is killed at any moment leaves records that are read, with every turn that it was asked for.
func TestKilled(t *testing.T) {
	t.Parallel()
	rounds := 40
	if testing.Short() {
		rounds = 8
	}
	l := labOfVictims(t, none{})
	for round := range rounds {
		turns := []string{}
		l.runVictim("TestVictim", func(line string) (kill bool) {
			turns = append(turns, line)
			return len(turns) > 3*round
		})
		l.open()
		expect.Equal(t, "the log", l.log.b.String(), "")
		for _, id := range turns {
			if _, err := l.OfTurn("ann", id); strings.HasPrefix(id, "turn_") && err != nil {
				t.Errorf("after %d turns: %v", len(turns), err)
			}
		}
	}
}

const envVictim = "HOLON_TEST_VICTIM" // home of a process that is to be killed

// labOfVictims is a home for processes that are killed.
func labOfVictims(t *testing.T, pool containers) *lab {
	home, err := state.MakeHome(filepath.Join(t.TempDir(), "home"), "")
	expect.NoError(t, err)
	l := &lab{T: t, home: home}
	l.opts = Options{Home: home, Pool: pool, Log: slog.New(slog.NewTextHandler(&l.log, nil))}
	return l
}

// runVictim runs a test as a process of its own, until see, which gets each line that it prints, has it killed.
func (l *lab) runVictim(test string, see func(line string) (kill bool)) {
	cmd := exec.CommandContext(l.Context(), os.Args[0], "-test.run=^"+test+"$")
	cmd.Env = append(os.Environ(), envVictim+"="+l.home.Dir())
	out, err := cmd.StdoutPipe()
	expect.NoError(l, errors.Join(err, cmd.Start()))
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if see(lines.Text()) {
			expect.NoError(l, cmd.Process.Kill())
		}
	}
	_ = cmd.Wait() // it was killed
}

// asVictim is the lab of a process that runVictim runs.
func asVictim(t *testing.T, pool containers, of string) *lab {
	dir := os.Getenv(envVictim)
	if dir == "" {
		t.Skip("it is a part of " + of)
	}
	home, err := state.FindHome(dir, "")
	expect.NoError(t, err)
	l := &lab{T: t, home: home}
	l.opts = Options{Home: home, Pool: pool, Log: slog.New(slog.DiscardHandler)}
	return l
}

// TestVictim is the process of TestKilled: it uses sessions, and prints each turn that it may ask for.
func TestVictim(t *testing.T) {
	l := asVictim(t, none{}, "TestKilled")
	l.open()
	for {
		x := l.start(Ask{})
		for range 3 {
			id := responses.NewID(responses.PrefixTurn)
			_, err := x.begin(id, "", func(error) {})
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
