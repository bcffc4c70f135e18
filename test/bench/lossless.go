package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"
)

// measureLossless is P20: turns at full speed, each read by one who reads all,
// one who reads a kilobyte a second and goes on later, and one who goes half way
// and comes back for the rest. Each must get every event once and in order.
func measureLossless(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	_, agentd, err := r.pair(ctx, 128)
	if err != nil {
		return nil, err
	}
	const turns = 23
	// First, because what many turns leave in the heap would hide it.
	each, err := agentd.slowReaders(ctx, turns, 5000)
	if err != nil {
		return nil, err
	}
	var wrong faults
	for _, deltas := range []int{50, 500, 5000} {
		_, _, err := parallel(ctx, turns, turns, func(ctx context.Context, i int) error {
			return agentd.readThrice(ctx, fmt.Sprintf("turn_lossless_%d_%d", deltas, i), deltas, &wrong)
		})
		if err != nil {
			return nil, err
		}
	}
	return []row{
		row{ID: "P20", What: fmt.Sprintf("events lost or out of order, %d turns of 50, 500, 5,000 deltas, %d readings",
			3*turns, wrong.readings), Against: "none", Unit: unitCount, Ours: float64(wrong.lost)}.absoluteGoal(0),
		row{ID: "P20", What: "turns that did not complete", Against: "none", Unit: unitCount,
			Ours: float64(wrong.stuck)}.absoluteGoal(0),
		row{ID: "P20", What: "resident memory for each slow reader", Against: "none", Unit: unitMB,
			Ours: each}.absoluteGoal(1),
	}, nil
}

// faults counts what went wrong.
type faults struct {
	mu       sync.Mutex
	readings int
	lost     int
	stuck    int
}

// check counts what is wrong with a reading of a turn with n deltas.
func (f *faults) check(s *streamed, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.readings++
	f.lost += s.lost + max(0, n-s.deltas)
	if !s.ended {
		f.stuck++
	}
}

// readThrice runs a turn with its three readers.
func (t *target) readThrice(ctx context.Context, turnID string, deltas int, wrong *faults) error {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	resp, err := t.do(ctx, http.MethodPost, "/responses", ask{
		Model: fmt.Sprintf("openai/fake-%d", deltas), Input: "Say something.", Stream: true,
		Holon: map[string]any{"turn_id": turnID},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	head, err := in.Peek(1 << 10) // the first event, which names the response
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m := responseID.FindSubmatch(head)
	if m == nil {
		return fmt.Errorf("the first event names no response: %.200q", head)
	}
	path := fmt.Sprintf("/responses/%s?stream=true", m[1])
	var group sync.WaitGroup
	errs := make([]error, 3)
	group.Go(func() {
		s := &streamed{}
		errs[0] = s.read(in, false)
		wrong.check(s, deltas)
	})
	group.Go(func() { errs[1] = t.readSlowly(ctx, path, deltas, wrong) })
	group.Go(func() { errs[2] = t.readInHalves(ctx, path, deltas, wrong) })
	group.Wait()
	return errors.Join(errs...)
}

// readSlowly reads a kilobyte a second for two seconds, and then the rest.
func (t *target) readSlowly(ctx context.Context, path string, deltas int, wrong *faults) error {
	resp, err := t.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	s := &streamed{}
	err = s.read(&slow{r: resp.Body, until: time.Now().Add(2 * time.Second)}, false)
	wrong.check(s, deltas)
	return err
}

// slow gives out a kilobyte a second until it does no longer.
type slow struct {
	r     io.Reader
	until time.Time
}

// Read implements io.Reader.
func (s *slow) Read(p []byte) (int, error) {
	if time.Now().Before(s.until) {
		time.Sleep(250 * time.Millisecond)
		p = p[:min(len(p), 256)]
	}
	return s.r.Read(p)
}

// readInHalves goes after half of the events and comes back for the rest.
func (t *target) readInHalves(ctx context.Context, path string, deltas int, wrong *faults) error {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	resp, err := t.do(leaving, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	s := &streamed{}
	in := bufio.NewReaderSize(resp.Body, 4<<10)
	for s.deltas < deltas/2 && err == nil {
		var line []byte
		if line, err = in.ReadBytes('\n'); len(line) > 6 && line[0] == 'd' && line[6] == '{' {
			s.take(line[7:])
		}
	}
	leave()
	_ = resp.Body.Close() // that is the point
	if err != nil {
		return err
	}
	resp, err = t.do(ctx, http.MethodGet, fmt.Sprintf("%s&starting_after=%d", path, s.events-1), nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	err = s.read(resp.Body, false)
	wrong.check(s, deltas)
	return err
}

// slowReaders returns how much memory agentd needs for each of n readers that
// take nothing of a long stream, in megabytes.
func (t *target) slowReaders(ctx context.Context, n, deltas int) (each float64, err error) {
	resp, err := t.do(ctx, http.MethodPost, "/responses",
		ask{Model: fmt.Sprintf("openai/fake-%d", deltas), Input: "Say something."})
	if err != nil {
		return 0, err
	}
	head, err := io.ReadAll(resp.Body)
	resp.Body.Close()
	if err != nil {
		return 0, err
	}
	m := responseID.FindSubmatch(head)
	if m == nil {
		return 0, errors.New("the answer names no response")
	}
	before, err := t.resident()
	if err != nil {
		return 0, err
	}
	for range n {
		resp, err := t.do(ctx, http.MethodGet, fmt.Sprintf("/responses/%s?stream=true", m[1]), nil)
		if err != nil {
			return 0, err
		}
		defer resp.Body.Close()
	}
	if err := rest(ctx, time.Second); err != nil {
		return 0, err
	}
	after, err := t.resident()
	return (after - before) / float64(n), err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
