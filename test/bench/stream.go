package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// measureStream is P6: how soon the first event and the first text of a
// streamed turn arrive at a client of agentd's socket. Both servers stand
// before the same model, and both make events durable before they send them.
func measureStream(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	skills, err := r.newSkills()
	if err != nil {
		return nil, err
	}
	relay, err := r.serveRelay(ctx)
	if err != nil {
		return nil, err
	}
	r.later(relay.stop)
	agentd, err := r.serveAgentd(ctx, skills)
	if err != nil {
		return nil, err
	}
	r.later(agentd.stop)
	n := r.perRound(500, 30)
	figures, err := compare(ctx, plan{rounds: r.opts.rounds, samples: n, block: n}, r.streamer("relay", relay),
		r.streamer("agentd", agentd))
	if err != nil {
		return nil, err
	}
	floor, ours := figures[0], figures[1]
	return []row{
		timed("P6", "POST /responses → first event", "relay, durable", ours, floor, 0).ratioGoal(1),
		timed("P6", "POST /responses → first delta", "relay, durable", ours, floor, 1).ratioGoal(1.4),
		timed("P6", "POST /responses → end of the stream", "relay, durable", ours, floor, 2),
	}, nil
}

// streamer samples turns at a server over one connection that is kept.
func (r *rig) streamer(name string, s *server) subject {
	client := unixClient(s.socket)
	r.later(func() error { client.CloseIdleConnections(); return nil })
	return subject{name, func(ctx context.Context) ([]time.Duration, error) { return streamTurn(ctx, client) }}
}

// streamTurn streams one turn and returns when its first event, its first delta
// and its end arrived.
func streamTurn(ctx context.Context, client *http.Client) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	body := strings.NewReader(`{"model":"` + modelName + `","input":"Say something.","stream":true}`)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://server/responses", body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "text/event-stream")
	began := time.Now()
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // explains the status
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return readStream(resp.Body, began)
}

func readStream(body io.Reader, began time.Time) ([]time.Duration, error) {
	var first, delta time.Duration
	completed := false
	in := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("read the stream: %w", err)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		if first == 0 {
			first = time.Since(began)
		}
		if delta == 0 && bytes.Contains(data, []byte(`"response.output_text.delta"`)) {
			delta = time.Since(began)
		}
		completed = completed || bytes.Contains(data, []byte(`"response.completed"`))
	}
	if first == 0 || delta == 0 || !completed {
		return nil, errors.New("the stream is not that of a completed turn")
	}
	return []time.Duration{first, delta, time.Since(began)}, nil
}
