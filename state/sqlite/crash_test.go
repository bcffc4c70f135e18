package sqlite

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/state/ledger"
	"holon/test/expect"
)

// crashVariable is set for a child that writes until it is killed.
const crashVariable = "HOLON_TEST_LEDGER_CRASH"

func TestMain(m *testing.M) {
	if path := os.Getenv(crashVariable); path != "" {
		fmt.Fprintln(os.Stderr, writeUntilKilled(path))
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// crashAgents are written to by two goroutines each.
var crashAgents = []string{"a", "b", "c"}

// writeUntilKilled prints agent and event number of every step that was
// acknowledged.
func writeUntilKilled(path string) error {
	s, err := Open(context.Background(), Options{Path: path})
	if err != nil {
		return err
	}
	failed := make(chan error)
	for i := range 2 * len(crashAgents) {
		agent := crashAgents[i%len(crashAgents)]
		go func() {
			for {
				var seq int64
				err := s.Update(context.Background(), func(tx ledger.Tx) (err error) {
					seq, err = crashStep(tx, agent)
					return err
				})
				if err != nil {
					failed <- err
					return
				}
				fmt.Printf("%s %d\n", agent, seq)
			}
		}()
	}
	return <-failed
}

// crashStep is one message with one event of the same number.
func crashStep(tx ledger.Tx, agent string) (int64, error) {
	l, err := tx.AgentState(agent)
	if err != nil {
		return 0, err
	}
	l.Admitted++
	m := ledger.Message{ID: fmt.Sprintf("msg_%s_%08d", agent, l.Admitted), AgentID: agent, Number: l.Admitted,
		CreatedAt: time.Now()}
	m.Body.Text = strings.Repeat("x", rand.IntN(6000))
	if err := tx.Insert(&m, &ledger.Entry{MessageID: m.ID, AgentID: agent, Number: m.Number, Status: ledger.Queued,
		Priority: ledger.Normal}); err != nil {
		return 0, err
	}
	err = tx.Step(&l, ledger.Event{ID: "evt", MessageID: m.ID, Level: 4})
	return l.EventSeq, err
}

func TestKilled(t *testing.T) {
	t.Parallel()
	kills := 50
	if testing.Short() {
		kills = 8
	}
	path := newPath(t)
	s := openAt(t, path)
	for _, id := range crashAgents {
		expect.NoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
			return tx.Insert(&ledger.Agent{ID: id}, &ledger.AgentState{AgentID: id})
		}))
	}
	expect.NoError(t, s.Close())
	acknowledged := make(map[string]int64)
	for range kills {
		killAfter(t, path, 1+rand.IntN(60), acknowledged)
		checkAfterKill(t, path, acknowledged)
		if t.Failed() {
			return
		}
	}
}

// killAfter lets a child write and kills it after so many acknowledged steps.
func killAfter(t *testing.T, path string, steps int, acknowledged map[string]int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0])
	child.Env = append(os.Environ(), crashVariable+"="+path)
	child.Stderr = os.Stderr
	out, in, err := os.Pipe()
	expect.NoError(t, err)
	child.Stdout = in
	expect.NoError(t, child.Start())
	_ = in.Close()
	defer out.Close()
	lines := bufio.NewReader(out)
	var once sync.Once
	for n := 1; ; n++ {
		line, err := lines.ReadString('\n') // what was printed before the kill counts too
		if err == io.EOF {
			break
		}
		var agent string
		var seq int64
		if _, err := fmt.Sscan(line, &agent, &seq); err != nil {
			t.Fatalf("the child said %q", line)
		}
		acknowledged[agent] = max(acknowledged[agent], seq)
		if n == steps {
			once.Do(func() { _ = child.Process.Kill() })
		}
	}
	if err := child.Wait(); err == nil || !strings.Contains(err.Error(), "killed") {
		t.Fatalf("the child ended by itself: %v", err)
	}
}

// checkAfterKill looks for all that was acknowledged, and for halves.
func checkAfterKill(t *testing.T, path string, acknowledged map[string]int64) {
	t.Helper()
	s := openAt(t, path)
	defer s.Close()
	err := s.View(t.Context(), func(v ledger.View) error {
		for _, agent := range crashAgents {
			l, err := v.AgentState(agent)
			if err != nil {
				return err
			}
			queued, err := v.CountQueued(agent)
			if err != nil {
				return err
			}
			page, err := v.Events(agent, ledger.EventQuery{Limit: 1 << 30})
			if err != nil {
				return err
			}
			for i, e := range page.Events {
				if e.Seq != int64(i)+1 {
					return fmt.Errorf("event %d of %s is where %d should be", e.Seq, agent, i+1)
				}
			}
			if n := int64(len(page.Events)); n < acknowledged[agent] || l.EventSeq != n || l.Revision != n ||
				l.Admitted != n || int64(queued) != n {
				return fmt.Errorf("%s: acknowledged %d; the state says event %d, revision %d, message %d; there are "+
					"%d events and %d entries",
					agent, acknowledged[agent], l.EventSeq, l.Revision, l.Admitted, n, queued)
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
