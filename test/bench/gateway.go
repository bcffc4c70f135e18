package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"time"

	"holon/runner/gateway"
)

// measureGateway is P22: what the model gateway costs, against the model asked
// directly over TCP. A bare relay on a socket shows what any hop costs; it and
// the gateway run in this process, as the gateway does in holon's.
func measureGateway(ctx context.Context, r *rig) (_ []row, err error) {
	end := r.scope()
	defer func() { err = errors.Join(err, end()) }()
	const small, trickle = "fake-1", "fake-200-1000"
	burst := fmt.Sprintf("fake-%d", r.samples(10_000, 2_000))
	hops, err := r.openHops(ctx, small, trickle, burst)
	if err != nil {
		return nil, err
	}
	measure := func(model string, samples, block int) ([]medians, error) {
		subjects := make([]subject, len(hops))
		for i, h := range hops {
			subjects[i] = subject{h.name, func(ctx context.Context) ([]time.Duration, error) {
				return h.ask(ctx, model)
			}}
		}
		return compare(ctx, plan{rounds: r.opts.rounds, samples: samples, block: block}, subjects...)
	}
	one, err := measure(small, r.perRound(2000, 60), 10)
	if err != nil {
		return nil, err
	}
	paced, err := measure(trickle, 3, 1)
	if err != nil {
		return nil, err
	}
	flood, err := measure(burst, r.perRound(150, 9), 1)
	if err != nil {
		return nil, err
	}
	return []row{
		addedRow("added to the first byte, one small stream", one).absoluteGoal(0.3),
		addedRow("the same, 200 deltas a millisecond apart", paced).absoluteGoal(0.3),
		rateRow("events a second, a millisecond apart", 200, paced, 2).leastGoal(0.9),
		rateRow("events a second, all at once", r.samples(10_000, 2_000), flood, 2).leastGoal(0.9),
		rateRow("the same through a bare relay", r.samples(10_000, 2_000), flood, 1),
	}, nil
}

// addedRow is about the time to the first byte that a hop adds: the median over
// the rounds of the differences within a round.
func addedRow(what string, m []medians) row {
	added := func(hop medians) float64 {
		differences := make([]float64, len(hop[0]))
		for i := range differences {
			differences[i] = ms(hop[0][i] - m[0][0][i])
		}
		return median(differences)
	}
	relay, ours := added(m[1]), added(m[2])
	return row{ID: "P22", What: "gateway: " + what, Against: "bare relay", Unit: unitMS, Floor: relay, Ours: ours,
		Ratio: ours / relay}
}

// rateRow is about whole streams: those of the hop against those without one.
func rateRow(what string, events int, m []medians, hop int) row {
	rate := func(m medians) float64 { return float64(events) / m.of(1).Seconds() }
	return row{ID: "P22", What: "gateway: " + what, Against: "the model, directly", Unit: unitRate, Floor: rate(m[0]),
		Ours: rate(m[hop]), Ratio: ratio(m[0][1], m[hop][1])}
}

// hop is a way to the model.
type hop struct {
	name, url, token string
	client           *http.Client
}

// openHops opens the ways to the model: none between, a bare relay, the gateway.
func (r *rig) openHops(ctx context.Context, models ...string) ([]hop, error) {
	dir, err := r.newDir()
	if err != nil {
		return nil, err
	}
	direct := &http.Client{Transport: &http.Transport{DisableCompression: true}}
	relay, model := unixClient(filepath.Join(dir, "relay.sock")), unixClient(filepath.Join(dir, "model.sock"))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "unix", filepath.Join(dir, "relay.sock"))
	if err != nil {
		return nil, err
	}
	bare := &bareRelay{to: r.model, transport: &http.Transport{DisableCompression: true, ReadBufferSize: 32 << 10}}
	server, served := &http.Server{Handler: bare}, make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	r.later(func() error {
		err := server.Close()
		<-served
		bare.transport.CloseIdleConnections()
		return err
	})
	gw, err := r.newGateway()
	if err != nil {
		return nil, err
	}
	r.later(func() error { gw.Close(); return nil })
	gateways, err := gw.Serve(ctx, filepath.Join(dir, "model.sock"))
	if err != nil {
		return nil, err
	}
	r.later(func() error { return gateways.Close(cleanupContext()) })
	token, hash := gateway.NewToken()
	// metered as runs are
	grant := gateway.Grant{TurnID: "turn_bench", Token: hash, Budget: gateway.Budget{MaxTokens: 1 << 40}}
	for _, name := range models {
		grant.Models = append(grant.Models, "openai/"+name)
	}
	if _, err := gateways.Grant(grant); err != nil {
		return nil, err
	}
	hops := []hop{
		{"direct", r.model + "/responses", "", direct},
		{"bare relay", "http://relay/responses", "", relay},
		{"gateway", "http://model/openai/responses", token.Reveal(), model},
	}
	r.later(func() error {
		for _, h := range hops {
			h.client.CloseIdleConnections()
		}
		return nil
	})
	return hops, nil
}

// ask streams one answer and returns when its first byte and its end arrived.
func (h hop) ask(ctx context.Context, model string) ([]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, h.url,
		strings.NewReader(`{"model":"`+model+`","input":"Say something.","stream":true}`))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if h.token != "" {
		req.Header.Set("Authorization", "Bearer "+h.token)
	}
	began := time.Now()
	resp, err := h.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	end := &ending{}
	if resp.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // explains the status
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	if _, err := io.ReadFull(io.TeeReader(resp.Body, end), make([]byte, 1)); err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	first := time.Since(began)
	if _, err := io.CopyBuffer(end, struct{ io.Reader }{resp.Body}, make([]byte, 64<<10)); err != nil {
		return nil, fmt.Errorf("read the stream: %w", err)
	}
	took := time.Since(began)
	if !strings.Contains(string(end.last), `"status":"completed"`) {
		return nil, errors.New("the stream is not that of a completed turn")
	}
	return []time.Duration{first, took}, nil
}

// ending keeps the end of what is written to it.
type ending struct{ last []byte }

func (e *ending) Write(p []byte) (int, error) {
	const most = 2 << 10
	e.last = append(e.last, p[max(0, len(p)-most):]...)
	e.last = append(e.last[:0], e.last[max(0, len(e.last)-most):]...)
	return len(p), nil
}

// bareRelay passes requests on, flushes each piece of an answer, and does no more.
type bareRelay struct {
	to        string
	transport *http.Transport
}

func (b *bareRelay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body) // small, and a server may close it when the answer begins
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	req, err := http.NewRequestWithContext(r.Context(), r.Method, b.to+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	resp, err := b.transport.RoundTrip(req)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer resp.Body.Close()
	w.WriteHeader(resp.StatusCode)
	control, buffer := http.NewResponseController(w), make([]byte, 32<<10)
	for err == nil {
		var n int
		n, err = resp.Body.Read(buffer)
		_, _ = w.Write(buffer[:n]) // a client that left ends the request
		_ = control.Flush()
	}
	if err != io.EOF {
		panic(http.ErrAbortHandler)
	}
}
