package control

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holon/runner/control/wire"
	"holon/state"
)

func newSnapshots(leaders int, patience time.Duration) *snapshots[[]byte] {
	return &snapshots[[]byte]{limiter: limiter{make(chan struct{}, leaders), patience}}
}

// Requests that come while a snapshot is computed wait for it, unless it began
// before a revision that they have seen.
func TestSnapshotsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newSnapshots(1, time.Hour)
		computed := 0
		leave := make(chan struct{})
		compute := func(context.Context) ([]byte, int64, error) {
			computed++
			<-leave
			return []byte(strconv.Itoa(computed)), int64(computed), nil
		}
		type got struct {
			body   string
			shared bool
		}
		answers := make(chan got, 3)
		ask := func(ctx context.Context, revision int64) {
			body, shared, err := g.do(ctx, "k", revision, compute)
			if err != nil {
				t.Error(err)
			}
			answers <- got{string(body), shared}
		}
		go ask(t.Context(), 1)
		synctest.Wait() // it leads
		go ask(t.Context(), 1)
		go ask(t.Context(), 2) // has seen more than the one that is made
		gone, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() { _, _, err := g.do(gone, "k", 1, compute); left <- err }()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who went away got %v", err)
		}
		leave <- struct{}{}
		switch a, b := <-answers, <-answers; {
		case a.body != "1":
			t.Errorf(`a.body = %q, want "1"`, a.body)
		case b.body != "1":
			t.Errorf(`b.body = %q, want "1"`, b.body)
		case a.shared == b.shared:
			t.Errorf("a.shared = %v, want another value", b.shared)
		}
		synctest.Wait()
		leave <- struct{}{}
		if a := <-answers; a.body != "2" || computed != 2 {
			t.Errorf("%v after %d", a, computed)
		}
		// Kept while it is new enough, and not longer.
		go ask(t.Context(), 2)
		if a := <-answers; a.body != "2" || !a.shared {
			t.Errorf("%v was not kept", a)
		}
		time.Sleep(snapshotTTL)
		go ask(t.Context(), 2)
		leave <- struct{}{}
		if a := <-answers; a.body != "3" {
			t.Errorf("%v was kept too long", a)
		}
	})
}

// A request that cannot be served in time is refused; a snapshot goes on for the
// others when the request that began it ends.
func TestSnapshotsAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newSnapshots(2, time.Second)
		leave := make(chan struct{})
		compute := func(ctx context.Context) ([]byte, int64, error) {
			<-leave
			return []byte("x"), 1, ctx.Err()
		}
		var group sync.WaitGroup
		leading, cancel := context.WithCancel(t.Context())
		for i := range 2 {
			group.Go(func() {
				if _, _, err := g.do(leading, strconv.Itoa(i), 1, compute); !errors.Is(err, context.Canceled) {
					t.Errorf("the request that was cancelled got %v, want %v", err, context.Canceled)
				}
			})
		}
		synctest.Wait()
		group.Go(func() {
			if body, shared, err := g.do(t.Context(), "0", 1, compute); err != nil || string(body) != "x" || !shared {
				t.Errorf("the request that waits with it got %q, %v, %v, want x, true, nil", body, shared, err)
			}
		})
		for range 3 { // the third one, and those that wait with it
			group.Go(func() {
				if _, _, err := g.do(t.Context(), "third", 1, compute); !state.IsCode(err, wire.CodeBusy) {
					t.Errorf("got %v, want %s", err, wire.CodeBusy)
				}
			})
		}
		time.Sleep(2 * time.Second)
		cancel()
		close(leave)
		group.Wait()
		if body, _, err := g.do(t.Context(), "third", 1, compute); err != nil || string(body) != "x" {
			t.Errorf("later: %s, %v", body, err)
		}
	})
}

// A panic reaches the request, and the next one is served.
func TestSnapshotPanics(t *testing.T) {
	t.Parallel()
	g := newSnapshots(1, time.Second)
	func() {
		defer func() { _ = recover() }()
		_, _, _ = g.do(t.Context(), "k", 0, func(context.Context) ([]byte, int64, error) { panic("boom") })
		t.Error("the panic was swallowed")
	}()
	body, _, err := g.do(t.Context(), "k", 0, func(context.Context) ([]byte, int64, error) {
		return []byte("x"), 0, nil
	})
	if err != nil || string(body) != "x" {
		t.Errorf("%s, %v", body, err)
	}
}

// The number of kept snapshots is bounded for any number of keys.
func TestSnapshotsAreForgotten(t *testing.T) {
	t.Parallel()
	g := newSnapshots(1, time.Second)
	for i := range 10 * maxSnapshots {
		if _, _, err := g.do(t.Context(), strconv.Itoa(i), 0, func(context.Context) ([]byte, int64, error) {
			return nil, 0, nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if len(g.kept) > maxSnapshots {
		t.Errorf("%d are kept", len(g.kept))
	}
}
