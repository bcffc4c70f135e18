package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// crowd is the number of sessions of P23.
const crowd = 16

// measureCrowd is P23: sixteen sessions at once at one agentd, each flooded by
// its model, with a reader that takes everything and one that stalls until the
// turn is over. Meanwhile somebody asks for /health.
func measureCrowd(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	skills, err := r.newSkills()
	if err != nil {
		return nil, err
	}
	s, err := r.serveAgentd(ctx, skills, "--concurrency", fmt.Sprint(crowd))
	if err != nil {
		return nil, err
	}
	r.later(s.stop)
	agentd := r.target(s, 4*crowd)
	idle, err := agentd.health(ctx, time.Second)
	if err != nil {
		return nil, err
	}
	before, err := s.resident()
	if err != nil {
		return nil, err
	}
	peak := &peak{of: s}
	stop := peak.watch()
	asking, over := context.WithCancel(ctx)
	defer over()
	var busy []time.Duration
	var askErr error
	var asker sync.WaitGroup
	asker.Go(func() { busy, askErr = agentd.health(asking, patience) })
	deltas := r.samples(20_000, 2_000)
	var wrong faults
	_, _, err = parallel(ctx, crowd, crowd, func(ctx context.Context, i int) error {
		return agentd.floodSession(ctx, i, deltas, &wrong)
	})
	over()
	asker.Wait()
	stop()
	if err := errors.Join(err, askErr); err != nil {
		return nil, err
	}
	quiet, loud := ms(quantile(idle, 0.95)), ms(quantile(busy, 0.95))
	what := fmt.Sprintf("%d sessions of %d deltas at once, a stalled reader each", crowd, deltas)
	return []row{
		row{ID: "P23", What: what + ": /health, p95", Against: "the same, idle", Unit: unitMS, Floor: quiet, Ours: loud,
			Ratio: loud / quiet}.absoluteGoal(50),
		{ID: "P23", What: "the same: resident memory for each session, at the peak", Against: "none", Unit: unitMB,
			Ours: (peak.most - before) / crowd},
		row{ID: "P23", What: fmt.Sprintf("the same: streams that are not events.ndjson byte for byte, of %d",
			wrong.readings), Against: "none", Unit: unitCount, Ours: float64(wrong.lost)}.absoluteGoal(0),
	}, nil
}

// health asks for /health every few milliseconds until ctx ends or the time is
// over, and returns how long each answer took.
func (t *target) health(ctx context.Context, d time.Duration) (took []time.Duration, err error) {
	client := unixClient(t.socket)
	defer client.CloseIdleConnections()
	for end := time.Now().Add(d); len(took) == 0 || ctx.Err() == nil && time.Now().Before(end); {
		began := time.Now()
		resp, err := client.Get("http://server/health") // not cut off with ctx: each counts
		if err != nil {
			return nil, err
		}
		_, err = io.Copy(io.Discard, resp.Body)
		if err = errors.Join(err, resp.Body.Close()); err != nil {
			return nil, err
		}
		took = append(took, time.Since(began))
		if err := rest(ctx, 5*time.Millisecond); err != nil {
			break
		}
	}
	return took, nil
}

// floodSession runs a turn in a session of its own with its two readers, and
// compares what each read with what is stored.
func (t *target) floodSession(ctx context.Context, i, deltas int, wrong *faults) error {
	ctx, cancel := context.WithTimeout(ctx, 4*patience)
	defer cancel()
	turnID := fmt.Sprintf("turn_crowd_%d", i)
	resp, err := t.do(ctx, http.MethodPost, "/responses", ask{
		Model: fmt.Sprintf("openai/fake-%d", deltas), Input: "Say something.", Stream: true,
		Holon: map[string]any{"turn_id": turnID, "session_id": fmt.Sprintf("sess_crowd_%d", i)},
	})
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	in := bufio.NewReaderSize(resp.Body, 64<<10)
	head, err := in.Peek(1 << 10)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	m := responseID.FindSubmatch(head)
	if m == nil {
		return fmt.Errorf("the first event names no response: %.200q", head)
	}
	late, err := t.do(ctx, http.MethodGet, fmt.Sprintf("/responses/%s?stream=true", m[1]), nil)
	if err != nil {
		return err
	}
	defer late.Body.Close()
	first, second := &streamed{}, &streamed{}
	if err := first.read(in, true); err != nil {
		return err
	}
	if err := second.read(late.Body, true); err != nil { // it took nothing until now
		return err
	}
	stored, err := os.ReadFile(filepath.Join(t.output, "turns", turnID, "events.ndjson"))
	if err != nil {
		return err
	}
	wrong.mu.Lock()
	defer wrong.mu.Unlock()
	for _, s := range []*streamed{first, second} {
		wrong.readings++
		if !bytes.Equal(s.lines, stored) || s.whole(deltas) != nil {
			wrong.lost++
		}
	}
	return nil
}
