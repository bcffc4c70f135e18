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

	"holon/test/load"
)

// measureLossless is P20: turns at full speed, each read by one who reads all,
// one who reads a kilobyte a second and goes on later, and one who goes half way
// and comes back for the rest. Each must get every event once and in order.
func measureLossless(ctx context.Context, r *rig) []row {
	_, agentd := r.pair(ctx)
	const turns = 23
	// First, because what many turns leave in the heap would hide it.
	each := agentd.slowReaders(ctx, turns, 5000)
	var wrong faults
	for _, count := range []int{50, 500, 5000} {
		parallel(ctx, turns, turns, func(ctx context.Context, i int) {
			agentd.readThrice(ctx, fmt.Sprintf("turn_lossless_%d_%d", count, i), count, &wrong)
		})
	}
	return []row{
		row{ID: "P20", What: fmt.Sprintf("events lost or out of order, %d turns of 50, 500, 5,000 deltas, %d readings",
			3*turns, wrong.readings), Ours: float64(wrong.lost)}.absoluteGoal(0),
		row{ID: "P20", What: "turns that did not complete", Ours: float64(wrong.stuck)}.absoluteGoal(0),
		row{ID: "P20", What: "resident memory for each slow reader", Unit: unitMB, Ours: each}.absoluteGoal(1),
	}
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
func (s *server) readThrice(ctx context.Context, turnID string, count int, wrong *faults) {
	ctx, cancel := context.WithTimeout(ctx, load.Patience)
	defer cancel()
	a := say(deltas(count))
	a.Stream, a.Holon = true, object{"turn_id": turnID}
	resp := s.do(ctx, http.MethodPost, "/responses", a)
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	head, err := in.Peek(1 << 10) // the first event, which names the response
	if !errors.Is(err, io.EOF) {
		load.Check(err)
	}
	path := pathOf(head)
	var group sync.WaitGroup
	errs := make([]error, 3)
	for i, read := range []func(){
		func() { wrong.read(in, count) },
		func() { s.readSlowly(ctx, path, count, wrong) },
		func() { s.readInHalves(ctx, path, count, wrong) },
	} {
		group.Go(func() { errs[i] = load.Guard(read) })
	}
	group.Wait()
	load.Check(errors.Join(errs...))
}

// pathOf is the path of the stream of the response that an answer names.
func pathOf(answer []byte) string {
	m := responseID.FindSubmatch(answer)
	if m == nil {
		load.Failf("the answer names no response: %.200q", answer)
	}
	return fmt.Sprintf("/responses/%s?stream=true", m[1])
}

// read reads a stream and counts what is wrong with it.
func (f *faults) read(in io.Reader, count int) {
	got := &streamed{}
	load.Check(got.read(in, false))
	f.check(got, count)
}

// readSlowly reads a kilobyte a second for two seconds, and then the rest.
func (s *server) readSlowly(ctx context.Context, path string, count int, wrong *faults) {
	resp := s.do(ctx, http.MethodGet, path, nil)
	defer resp.Body.Close()
	wrong.read(&slow{r: resp.Body, until: time.Now().Add(2 * time.Second)}, count)
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
func (s *server) readInHalves(ctx context.Context, path string, count int, wrong *faults) {
	leaving, leave := context.WithCancel(ctx)
	defer leave()
	resp := s.do(leaving, http.MethodGet, path, nil)
	got := &streamed{}
	in := bufio.NewReaderSize(resp.Body, 4<<10)
	for got.deltas < count/2 {
		if line := load.Must(in.ReadBytes('\n')); len(line) > 6 && line[0] == 'd' && line[6] == '{' {
			got.take(line[7:])
		}
	}
	leave()
	_ = resp.Body.Close() // that is the point
	resp = s.do(ctx, http.MethodGet, fmt.Sprintf("%s&starting_after=%d", path, got.events-1), nil)
	defer resp.Body.Close()
	load.Check(got.read(resp.Body, false))
	wrong.check(got, count)
}

// slowReaders returns how much memory agentd needs for each of n readers that
// take nothing of a long stream, in megabytes.
func (s *server) slowReaders(ctx context.Context, n, count int) (each float64) {
	id := s.create(ctx, say(deltas(count)))
	before := s.resident()
	for range n {
		resp := s.do(ctx, http.MethodGet, fmt.Sprintf("/responses/%s?stream=true", id), nil)
		defer resp.Body.Close()
	}
	load.Check(load.Pause(ctx, time.Second))
	return (s.resident() - before) / float64(n)
}
