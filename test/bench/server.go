package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"holon/test/load"
)

// relayed is what most floors are.
const relayed = "relay, durable"

type server struct {
	*load.Process
	ready  time.Duration // from the spawn to the first answer
	base   string        // URL
	client *http.Client  // keeps its connections
}

func (r *rig) at(socket, base string) *server {
	client := load.Unix(socket)
	if t, ok := client.Transport.(*http.Transport); ok {
		t.MaxIdleConnsPerHost, t.ReadBufferSize = 128, 64<<10
	}
	r.later(func() error { client.CloseIdleConnections(); return nil })
	return &server{client: client, base: base}
}

// serveFloor starts the server that only answers, or with a model the relay in front of it.
func (r *rig) serveFloor(ctx context.Context, model string) *server {
	dir := r.newDir()
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(r.floor, "serve", socket)
	if model != "" {
		turns := filepath.Join(dir, "turns")
		load.Check(os.Mkdir(turns, 0o700))
		cmd = exec.Command(r.floor, "relay", socket, turns, model+"/responses")
	}
	s := r.at(socket, "http://server")
	s.ready = timed(func() {
		s.Process = load.Must(load.Start(cmd, filepath.Join(dir, "log")))
		r.laterKill(s.Process)
		load.Check(awaitAnswer(ctx, socket, "/health"))
	})
	return s
}

// serveProxy starts net/http's proxy in front of the server at a socket.
func (r *rig) serveProxy(ctx context.Context, behind string) *server {
	dir := r.newDir()
	socket := filepath.Join(dir, "s")
	s := r.at(socket, "http://server")
	s.Process = load.Must(load.Start(exec.Command(r.floor, "proxy", socket, behind), filepath.Join(dir, "log")))
	r.laterKill(s.Process)
	load.Check(awaitAnswer(ctx, socket, "/health"))
	return s
}

// skillCount is the number of skills that agentd is given.
const skillCount = 10

// serveAgentd starts agentd as a process of the host, in front of a model, with small skills.
func (r *rig) serveAgentd(ctx context.Context, model string, flags ...string) *server {
	dir := r.newDir()
	for i := range skillCount {
		skill := filepath.Join(dir, "skills", fmt.Sprintf("skill-%d", i))
		load.Check(os.MkdirAll(skill, 0o755))
		text := fmt.Sprintf("---\nname: skill-%d\ndescription: Does the task number %d when it is asked for.\n---\n"+
			"\n%s", i, i, strings.Repeat("Do it step by step.\n", 100))
		load.Check(os.WriteFile(filepath.Join(skill, "SKILL.md"), []byte(text), 0o644))
	}
	a := load.Must(load.NewAgentd(dir, dir, append([]string{"--model", modelName}, flags...)...))
	a.Env = []string{"OPENAI_BASE_URL=" + model, "OPENAI_API_KEY=" + modelKey}
	s := r.at(a.Socket(), "http://server")
	s.ready = timed(func() {
		load.Check(a.Launch())
		s.Process = a.Process
		r.laterKill(s.Process)
		if err := awaitAnswer(ctx, a.Socket(), "/health"); err != nil {
			load.Failf("%w\n%s", err, a.Tail())
		}
	})
	return s
}

func (r *rig) pair(ctx context.Context) (relay, agentd *server) {
	return r.serveFloor(ctx, r.model), r.serveAgentd(ctx, r.model, "--concurrency", "1024", "--queue-limit", "2000")
}

func (s *server) resident() float64 { return load.Resident(s.PID()) / 1e6 }

// ask is what a request for a turn says; empty fields are left out.
type ask struct {
	Model    string `json:"model"`
	Input    any    `json:"input"`
	Stream   bool   `json:"stream,omitempty"`
	Previous string `json:"previous_response_id,omitempty"`

	Holon map[string]string `json:"holon,omitempty"`
}

func say(model string) ask { return ask{Model: model, Input: "Say something."} }

// deltas is a model that sends so many at once.
func deltas(n int) string { return fmt.Sprint("openai/fake-", n) }

// do sends a request and returns the answer to it, which must be good.
func (s *server) do(ctx context.Context, method, path string, body any) *http.Response {
	data := load.Must(json.Marshal(body))
	req := load.Must(http.NewRequestWithContext(ctx, method, s.base+path, bytes.NewReader(data)))
	req.Header.Set("Content-Type", "application/json")
	resp := load.Must(s.client.Do(req))
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // explains the status
		load.Failf("%s: %s", resp.Status, text)
	}
	return resp
}

// create makes a turn that answers in one piece, and returns its response's id.
func (s *server) create(ctx context.Context, a ask) (id string) {
	ctx, cancel := context.WithTimeout(ctx, load.Patience)
	defer cancel()
	resp := s.do(ctx, http.MethodPost, "/responses", a)
	defer resp.Body.Close()
	var answer struct{ ID, Status string }
	load.Check(json.NewDecoder(resp.Body).Decode(&answer))
	if answer.Status != "completed" {
		load.Failf("the turn is %s", answer.Status)
	}
	return answer.ID
}

func (s *server) creator(a ask) subject {
	return subject{"create", func(ctx context.Context) []float64 { return laps(func() { s.create(ctx, a) })[:1] }}
}

type streamed struct {
	id             string // of the response
	began          time.Time
	first          time.Duration // when the first event came
	events, deltas int
	lost           int // events whose number is not the one after that of the event before
	ended          bool
}

// stream makes a turn and reads its stream to the end.
func (s *server) stream(ctx context.Context, a ask) *streamed {
	ctx, cancel := context.WithTimeout(ctx, load.Patience)
	defer cancel()
	a.Stream = true
	got := &streamed{began: time.Now()}
	resp := s.do(ctx, http.MethodPost, "/responses", a)
	defer resp.Body.Close()
	got.id = resp.Header.Get("X-Response-Id")
	load.Check(got.read(resp.Body))
	return got
}

func (s *server) streamer() subject {
	return subject{"stream", func(ctx context.Context) []float64 {
		got := s.stream(ctx, say(modelName))
		if got.deltas == 0 || !got.ended {
			load.Failf("the stream is not that of a completed turn")
		}
		return []float64{ms(got.first)}
	}}
}

var (
	deltaMark  = []byte(`"response.output_text.delta"`)
	numberMark = []byte(`"sequence_number":`)
	doneMark   = []byte(`"response.completed"`)
)

func (s *streamed) read(body io.Reader) error {
	in := bufio.NewScanner(body)
	in.Buffer(make([]byte, 256<<10), 64<<20) // the last event is long
	for in.Scan() {
		if data, ok := bytes.CutPrefix(in.Bytes(), []byte("data: {")); ok {
			s.take(data)
		}
	}
	return in.Err()
}

func (s *streamed) take(data []byte) {
	_, number, _ := bytes.Cut(data, numberMark)
	number = number[:max(0, bytes.IndexAny(number, ",}"))]
	if n, err := strconv.Atoi(string(number)); err != nil || n != s.events {
		s.lost++
	}
	if s.events++; s.events == 1 {
		s.first = time.Since(s.began)
	}
	head := data[:min(len(data), 200)] // the type stands in the beginning
	switch {
	case bytes.Contains(head, deltaMark):
		s.deltas++
	case bytes.Contains(head, doneMark):
		s.ended = true
	}
}

// whole checks that nothing is missing of a stream with n deltas.
func (s *streamed) whole(n int) {
	if s.lost > 0 || s.deltas != n || !s.ended {
		load.Failf("the stream has %d of %d deltas, %d gaps, end %t", s.deltas, n, s.lost, s.ended)
	}
}

// parallel does a job n times, c at a time, and returns how long each call took
// and all of them together. The first error ends it.
func parallel(ctx context.Context, n, c int, job func(ctx context.Context, i int)) (took []time.Duration,
	all time.Duration) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took = make([]time.Duration, n)
	next := make(chan int)
	var group sync.WaitGroup
	began := time.Now()
	for range c {
		group.Go(func() {
			for i := range next {
				var err error
				took[i] = timed(func() { err = load.Guard(func() { job(ctx, i) }) })
				if err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
	load.Check(context.Cause(ctx))
	return took, time.Since(began)
}
