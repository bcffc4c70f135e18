package record

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses"
	"holon/test/expect"
)

// files lists the ids of all trajectories, those of deleted responses in brackets.
func files(t *testing.T, s *Store) string {
	t.Helper()
	done, err := s.list("responses")
	must(t, err)
	deleted, err := s.list("deleted")
	must(t, err)
	for _, id := range deleted {
		done = append(done, "("+id+")")
	}
	slices.Sort(done)
	return strings.Join(done, " ")
}

// sweep sweeps until there is nothing more to do.
func sweep(t *testing.T, s *Store, r Retention, at time.Time) {
	t.Helper()
	for more := true; more; {
		var err error
		more, err = s.Sweep(t.Context(), r, at)
		must(t, err)
	}
}

func TestDeletedHistoryStaysWhileItIsNeeded(t *testing.T) {
	s := openStore(t)
	for _, link := range [][2]string{{"a", ""}, {"b", "a"}, {"c", "b"}, {"d", "b"}} {
		put(t, s, link[0], link[1])
	}
	must(t, s.Delete("b"))
	for range 2 { // also after a restart
		sweep(t, s, Retention{}, now())
		expect.Equal(t, "stored responses", files(t, s), "(b) a c d")
		_, loaded := s.Load("b")
		_, _, chain := s.Chain("b")
		_, begun := s.begin(header("e", "b"), nil, nil)
		for _, err := range []error{loaded, chain, begun, s.Delete("b")} {
			expect.ErrorIs(t, "the deleted response", err, ErrNotFound)
		}
		expect.Equal(t, "c is", names(t, s, "c"), "in_a out_a in_b out_b in_c out_c ")
		s = cold(t, s)
	}
	must(t, s.Delete("c"))
	sweep(t, s, Retention{}, now())
	expect.Equal(t, "stored responses", files(t, s), "(b) a d")
	must(t, s.Delete("d"))
	sweep(t, s, Retention{}, now())
	expect.Equal(t, "stored responses", files(t, s), "a")
}

// Deleting is killed between any two of its steps; what is left is finished by
// the next process.
func TestDeleteIsCrashSafe(t *testing.T) {
	s := openStore(t)
	put(t, s, "a", "")
	put(t, s, "b", "a")
	// killed right after the rename
	must(t, os.Mkdir(filepath.Join(s.dir, "deleted"), 0o700), os.Rename(s.donePath("b"), s.deletedPath("b")))
	s = cold(t, s)
	if _, _, err := s.Chain("b"); !errors.Is(err, ErrNotFound) {
		t.Errorf("b: %v", err)
	}
	sweep(t, s, Retention{}, now())
	expect.Equal(t, "stored responses", files(t, s), "a")
	must(t, os.Remove(s.donePath("a"))) // gone without a word
	if err := s.Delete("a"); !errors.Is(err, ErrNotFound) {
		t.Errorf("a: %v", err)
	}
	for _, id := range []string{"", "..", "a/b", "unknown"} {
		if err := s.Delete(id); !errors.Is(err, ErrNotFound) {
			t.Errorf("%q: %v", id, err)
		}
	}
}

func TestARunningResponseIsNotDeleted(t *testing.T) {
	s := openStore(t)
	put(t, s, "a", "")
	tr, err := s.begin(header("b", "a"), nil, nil)
	must(t, err)
	expect.ErrorIs(t, "delete", s.Delete("b"), ErrRunning)
	must(t, s.Delete("a")) // its history may be deleted, and stays
	sweep(t, s, Retention{}, now())
	expect.Equal(t, "stored responses", files(t, s), "(a)")
	must(t, tr.Finish(final("b")), tr.Publish(true))
	expect.Equal(t, "b is", names(t, s, "b"), "in_a out_a ")
	must(t, s.Delete("b"))
	sweep(t, s, Retention{}, now())
	expect.Equal(t, "stored responses", files(t, s), "")
	cut, err := s.begin(header("c", ""), nil, nil) // broke off, as in a crash
	must(t, err, cut.Close())
	if err := cold(t, s).Delete("c"); !errors.Is(err, ErrRunning) {
		t.Errorf("delete of what is not settled: %v", err)
	}
}

func TestRetention(t *testing.T) {
	day := 24 * time.Hour
	for name, tc := range map[string]struct {
		keep Retention
		want string
	}{
		"unlimited":             {Retention{}, "l0 l1 l2 o0 o1 y0 y1"},
		"by age":                {Retention{MaxAge: 5 * day}, "l0 l1 l2 y0 y1"}, // l is as old as its last response
		"by age, all":           {Retention{MaxAge: time.Hour}, "r0"},           // of a running chain
		"by count":              {Retention{MaxCount: 5}, "l0 l1 l2 y0 y1"},
		"by count, within line": {Retention{MaxCount: 6}, "l0 l1 l2 o0 y0 y1"},
		"by bytes":              {Retention{MaxBytes: 1}, "r0"},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			add := func(id, previous string, age time.Duration) {
				h := header(id, previous)
				h.CreatedAt = now().Add(-age)
				tr, err := s.begin(h, nil, []responses.Item{text("in_"+id, responses.RoleUser)})
				must(t, err, tr.Finish(final(id)), tr.Publish(true))
			}
			add("o0", "", 20*day)
			add("o1", "o0", 19*day)
			add("l0", "", 30*day)
			add("l1", "l0", 10*day)
			add("l2", "l1", 2*day)
			add("y0", "", 3*day)
			add("y1", "y0", 1*day)
			if tc.want == "r0" {
				add("r0", "", 90*day)
				_, err := s.begin(header("r1", "r0"), nil, nil)
				must(t, err)
			} else {
				s = cold(t, s)
			}
			sweep(t, s, tc.keep, now())
			expect.Equal(t, "stored responses", files(t, s), tc.want)
			must(t, s.Close())
		})
	}
}

func TestASweepIsBoundedAndTakesTheNotes(t *testing.T) {
	s := openStore(t)
	defer s.Close()
	notes := filepath.Join(s.dir, "turns")
	must(t, os.Mkdir(notes, 0o700))
	for i := range sweepStep + 10 {
		id := fmt.Sprintf("r%04d", i)
		put(t, s, id, "")
		must(t, os.WriteFile(filepath.Join(notes, "turn_"+id), []byte("/x\n"), 0o600))
	}
	keep := Retention{MaxAge: time.Hour}
	for _, name := range []string{"turn_old", "turn_new"} { // of turns that were not stored
		must(t, os.WriteFile(filepath.Join(notes, name), []byte("/x\n"), 0o600))
	}
	at := now().Add(2 * time.Hour)
	must(t, os.Chtimes(filepath.Join(notes, "turn_old"), now(), now()),
		os.Chtimes(filepath.Join(notes, "turn_new"), at, at))
	if more, err := s.Sweep(t.Context(), keep, at); !more || err != nil {
		t.Errorf("more %v, %v", more, err)
	}
	expect.Equal(t, "responses after one step", strings.Count(files(t, s), "r"), 10)
	sweep(t, s, keep, at)
	left, err := os.ReadDir(notes)
	if must(t, err); len(left) != 1 || left[0].Name() != "turn_new" {
		t.Errorf("notes %v", left)
	}
}

func TestMaintainSweepsUntilItIsStopped(t *testing.T) {
	s := openStore(t)
	put(t, s, "a", "")
	put(t, s, "b", "")
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		s.wake = make(chan struct{}, 1) // of this bubble
		ended := make(chan struct{})
		go func() {
			s.Maintain(ctx, Retention{}, now, slog.New(slog.DiscardHandler))
			close(ended)
		}()
		synctest.Wait()
		must(t, s.Delete("a")) // wakes it
		synctest.Wait()
		if _, err := os.Lstat(s.deletedPath("a")); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the deleted response: %v", err)
		}
		cancel()
		<-ended
	})
	s.wake = make(chan struct{}, 1)
	expect.Equal(t, "stored responses", files(t, s), "b")
	must(t, s.Close())
}
