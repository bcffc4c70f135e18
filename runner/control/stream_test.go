package control_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holon/runner/agent/view"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// say admits a message of the operator, as another door would.
func (r *rig) say(agentID, text, correlation string) int64 {
	r.t.Helper()
	a, err := r.machine.Admit(context.Background(),
		ledger.Message{AgentID: agentID, Kind: ledger.KindOperatorPrompt,
			Origin: ledger.Origin{Kind: ledger.OriginOperator},
			Body:   ledger.Body{Type: "text", Text: text}, AdmissionContext: ledger.LocalProcess,
			CorrelationID: correlation})
	if err != nil {
		r.t.Error(err)
	}
	return a.EventSeq
}

// reader reads the frames of a stream, each as its lines.
type reader struct {
	t    testing.TB
	body io.ReadCloser
	in   *bufio.Reader
}

func (r *rig) stream(path string, header map[string]string) *reader {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), "GET", "http://holon"+path, nil)
	expect.NoError(r.t, err)
	for name, value := range header {
		req.Header.Set(name, value)
	}
	resp, err := r.raw().Do(req)
	expect.NoError(r.t, err)
	if resp.StatusCode != 200 || resp.Header.Get("Content-Type") != "text/event-stream" {
		body, _ := io.ReadAll(resp.Body)
		r.t.Fatalf("%d %s", resp.StatusCode, body)
	}
	r.t.Cleanup(func() { resp.Body.Close() })
	return &reader{r.t, resp.Body, bufio.NewReader(resp.Body)}
}

func (s *reader) next() []string {
	s.t.Helper()
	lines, err := s.frame()
	if err != nil {
		s.t.Fatalf("after %q: %v", lines, err)
	}
	return lines
}

// told is the next frame that is not a comment.
func (s *reader) told() []string {
	s.t.Helper()
	lines := s.next()
	for strings.HasPrefix(lines[0], ":") {
		lines = s.next()
	}
	return lines
}

func (s *reader) frame() (lines []string, err error) {
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return lines, err
		}
		if line = strings.TrimSuffix(line, "\n"); line == "" {
			return lines, nil
		}
		lines = append(lines, line)
	}
}

func (s *reader) control() wire.StreamControl {
	s.t.Helper()
	var f wire.StreamControl
	lines := s.next()
	data, _ := strings.CutPrefix(lines[len(lines)-1], "data: ")
	if err := json.Unmarshal([]byte(data), &f); err != nil || !strings.HasPrefix(f.Type, "stream_") {
		s.t.Fatalf("%q: %v", lines, err)
	}
	return f
}

func TestStreamFrames(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{KeepAlive: 20 * time.Millisecond}, control.Access{})
	d := r.described()
	first := r.say("main", "one", "")
	second := r.say("main", "two", "")
	s := r.stream("/agents/main/events/stream?after_seq="+fmt.Sprint(first), nil)
	f := s.control()
	expect.Equal(t, "f.Type", f.Type, wire.StreamOpen)
	expect.Equal(t, "f.AfterSeq", f.AfterSeq, first)
	expect.Equal(t, "f.NewestSeq", f.NewestSeq, second)
	expect.Equal(t, "f.OldestSeq", f.OldestSeq, 1)
	expect.Equal(t, "f.Epoch", f.Epoch, r.store.Epoch())
	lines := s.next()
	if len(lines) != 2 || lines[0] != fmt.Sprint("id: ", second) {
		t.Fatalf("event %q", lines)
	}
	data := []byte(strings.TrimPrefix(lines[1], "data: "))
	expect.NoError(t, d.schemas.Object("EventEnvelope", data))
	var e view.EventEnvelope
	err := json.Unmarshal(data, &e)
	if err != nil {
		t.Errorf("unexpected error: %v", err)
	}
	expect.Equal(t, "e.EventSeq", e.EventSeq, second)
	if e.Payload.Message == nil {
		t.Fatal("e.Payload.Message = nil, want a value")
	}
	expect.Equal(t, "e.Payload.Message.Body.Text", e.Payload.Message.Body.Text, "two")
	expect.Equal(t, "e.Display.Summary", e.Display.Summary, "operator: two")
	expect.Equal(t, "e.Provenance.Trust", e.Provenance.Trust, ledger.TrustedOperator)
	if quiet := s.next(); quiet[0] != ": nothing new" {
		t.Errorf("in silence: %q", quiet)
	}
	third := r.say("main", "three", "")
	if lines = s.told(); lines[0] != fmt.Sprint("id: ", third) {
		t.Errorf("live: %q", lines)
	}
	// The header goes before the query; without either only new ones come, or the tail.
	if f := r.stream("/agents/main/events/stream?after_seq=0",
		map[string]string{"Last-Event-ID": fmt.Sprint(third)}).control(); f.AfterSeq != third {
		t.Errorf("resumed %+v", f)
	}
	if f := r.stream("/agents/main/events/stream", nil).control(); f.AfterSeq != third {
		t.Errorf("live only %+v", f)
	}
	if f := r.stream("/agents/main/events/stream?limit=2", nil).control(); f.AfterSeq != first {
		t.Errorf("tail %+v", f)
	}
}

// A cursor that leads nowhere is told so, and the stream goes on from now.
func TestStreamResets(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	for i := range 10 {
		r.say("main", fmt.Sprint(i), "")
	}
	must(r.store.Prune(t.Context(), ledger.Retention{MaxEvents: 4}, time.Now(), 1000))(t)
	c := r.client()
	page := must(c.Events(t.Context(), "", viewAll))(t)
	if page.OldestSeq < 5 {
		t.Fatalf("nothing was pruned: %+v", page)
	}
	for _, tc := range []struct{ name, query, reason string }{
		{"epoch", fmt.Sprintf("after_seq=%d&epoch=other", page.NewestSeq), "epoch_changed"},
		{"ahead", fmt.Sprintf("after_seq=%d", page.NewestSeq+100), "cursor_ahead"},
		{"pruned", fmt.Sprintf("after_seq=%d", page.OldestSeq-2), "cursor_pruned"},
		{"just not pruned", fmt.Sprintf("after_seq=%d", page.OldestSeq-1), ""},
		{"all there is", "after_seq=0", ""},
		{"newest", fmt.Sprintf("after_seq=%d&epoch=%s", page.NewestSeq, page.Epoch), ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := r.stream("/agents/main/events/stream?"+tc.query, nil)
			s.control()
			if tc.reason == "" {
				seq := r.say("main", "next", "")
				for {
					if lines := s.next(); lines[0] == fmt.Sprint("id: ", seq) {
						return
					} else if strings.Contains(lines[0], "stream_reset") {
						t.Fatalf("%q", lines)
					}
				}
			}
			f := s.control()
			expect.Equal(t, "f.Type", f.Type, wire.StreamReset)
			expect.Equal(t, "f.Reason", f.Reason, tc.reason)
			expect.Equal(t, "f.AfterSeq", f.AfterSeq, f.NewestSeq)
			seq := r.say("main", "next", "")
			if lines := s.next(); lines[0] != fmt.Sprint("id: ", seq) {
				t.Errorf("after the reset: %q", lines)
			}
		})
	}
}

// A client that takes a snapshot and follows from there sees every event once, while many write and read.
func TestSnapshotThenStream(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	const writers, each, readers = 4, 25, 4
	var writing, reading, snapshots sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			for i := range each {
				r.say("main", fmt.Sprint(w, i), "")
			}
		})
	}
	snapshots.Add(readers)
	for range readers {
		reading.Go(func() {
			c := client.Unix(r.socket)
			defer c.Close()
			snapshot, err := c.State(t.Context(), "")
			snapshots.Done()
			if err != nil {
				t.Error(err)
				return
			}
			pending, want := snapshot.Session.PendingCount, snapshot.SnapshotThrough
			for item, err := range c.Follow(t.Context(), "",
				client.Follow{After: snapshot.SnapshotThrough, Epoch: snapshot.EventLogEpoch}) {
				if err != nil || item.Reset != nil {
					t.Errorf("%+v, %v", item.Reset, err)
					return
				}
				if want++; item.Event.EventSeq != want {
					t.Errorf("event %d, want %d", item.Event.EventSeq, want)
					return
				}
				if item.Event.Type == "message_admitted" {
					pending++
				}
				if item.Event.Provenance.CorrelationID == "last" {
					break
				}
			}
			expect.Equal(t, "snapshot and events tell of … messages", pending, writers*each+1)
		})
	}
	writing.Wait()
	snapshots.Wait() // a reader that begins after the last message would wait for it without end
	r.say("main", "last", "last")
	reading.Wait()
}

// A follower goes on through restarts of the server, without a gap and without seeing anything twice.
func TestFollowAcrossRestarts(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	c := r.client()
	const restarts = 3
	seen := make(chan int64)
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		var last int64
		var ended error
		for item, err := range c.Follow(ctx, "main", client.Follow{After: 0, Patience: time.Minute}) {
			if err != nil {
				ended = err
				break
			}
			if item.Reset != nil || item.Event.EventSeq != last+1 {
				ended = fmt.Errorf("after %d came %+v", last, item)
				break
			}
			last = item.Event.EventSeq
			seen <- last
		}
		close(seen)
		done <- ended
	}()
	until := func(seq int64) {
		for got := range seen {
			if got == seq {
				return
			}
		}
		t.Fatalf("the follower ended before %d: %v", seq, <-done)
	}
	until(r.say("main", "before", ""))
	for i := range restarts {
		r.stop()
		r.say("main", fmt.Sprint("while it is away ", i), "")
		r.server = control.New(control.Options{Store: r.store, Steps: r.machine, Host: r.host})
		r.run(control.Access{})
		until(r.say("main", fmt.Sprint("after ", i), ""))
	}
	enough := errors.New("enough")
	cancel(enough)
	for range seen {
	}
	expect.ErrorIs(t, "it ended", <-done, enough)
}

func TestFollowGivesUp(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	c := r.client()
	for _, err := range c.Follow(t.Context(), "nobody", client.Follow{After: -1}) {
		if !state.IsCode(err, ledger.CodeNotFound) {
			t.Errorf("an agent that is not there: %v", err)
		}
	}
	r.stop()
	count := 0
	for _, err := range c.Follow(t.Context(), "main", client.Follow{Patience: time.Millisecond}) {
		if count++; !state.IsCode(err, wire.CodeUnreachable) {
			t.Errorf("no daemon: %v", err)
		}
	}
	expect.Equal(t, "ends", count, 1)
}

// It is said once that the daemon is away.
func TestFollowTellsThatTheDaemonIsAway(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := client.Unix(filepath.Join(t.TempDir(), "none.sock"))
		defer c.Close()
		told := 0
		for range c.Follow(t.Context(), "main", client.Follow{Patience: 2 * time.Second,
			Away: func(time.Duration) { told++ }}) {
		}
		expect.Equal(t, "how often it is said", told, 1)
	})
}

// A reader that takes nothing is cut off; others notice nothing, and neither do writers.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{Write: 5 * time.Second}, control.Access{})
	slow := r.stream("/agents/main/events/stream?projection=local_debug&after_seq=0", nil)
	quick := r.stream("/agents/main/events/stream?projection=local_debug&after_seq=0", nil)
	large, messages := strings.Repeat("x", 5<<10), 200
	ended := make(chan bool)
	go func() { // it never stops reading
		last := ""
		for !strings.Contains(last, `"text":"the end"`) {
			lines, err := quick.frame()
			if err != nil {
				t.Error(err)
				break
			}
			last = lines[len(lines)-1]
		}
		close(ended)
	}()
	for range messages { // far more than socket buffers hold
		r.say("main", large, "")
	}
	d := r.described()
	until(t, "the slow reader is cut off", func() bool {
		return strings.Contains(r.ask(d, get("/metrics")).body, "holon_event_streams_cut_total 1\n")
	})
	if n, err := io.Copy(io.Discard, slow.in); err == nil || n > int64(3*messages*len(large)) {
		t.Errorf("the slow reader got %d bytes to an end", n)
	}
	r.say("main", "the end", "")
	<-ended
}

func TestTooManyStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{Streams: 1}, control.Access{})
	d := r.described()
	s := r.stream("/agents/main/events/stream", nil)
	s.control()
	a := r.ask(d, get("/agents/main/events/stream"))
	a.is(t, "a second stream", 429, "busy", "")
	if a.header.Get("Retry-After") == "" {
		t.Error("it is not said when to come back")
	}
	s.body.Close()
	until(t, "the place is free", func() bool {
		return r.ask(d, get("/agents/main/events/stream?after_seq=x")).status == 400
	})
}

// until asks until something is so, which has no event of its own.
func until(t *testing.T, what string, so func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for ; !so(); time.Sleep(time.Millisecond) {
		if ctx.Err() != nil {
			t.Fatal("gave up waiting until " + what)
		}
	}
}

// When the server ends, streams are told, and requests that run are answered.
func TestShutdown(t *testing.T) {
	t.Parallel()
	entered, leave := make(chan struct{}), make(chan struct{})
	r := newRig(t, control.Limits{}, control.Access{})
	r.host.prompt = func() { close(entered); <-leave }
	s := r.stream("/agents/main/events/stream", nil)
	s.control()
	c := r.client()
	answered := make(chan error, 1)
	go func() {
		_, err := c.DebugPrompt(context.Background(), "main", "x")
		answered <- err
	}()
	<-entered
	stopped := make(chan struct{})
	go func() { r.stop(); close(stopped) }()
	if f := s.control(); f.Type != wire.StreamEnd || f.Reason != "shutdown" {
		t.Errorf("%+v", f)
	}
	if rest, err := io.ReadAll(s.in); err != nil || len(rest) > 0 {
		t.Errorf("after the end: %q, %v", rest, err)
	}
	close(leave)
	if err := <-answered; err != nil {
		t.Errorf("a request that ran: %v", err)
	}
	<-stopped
}
