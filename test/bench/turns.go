package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"time"
)

// ask is what a request for a turn says; empty fields are left out.
type ask struct {
	Model      string         `json:"model"`
	Input      any            `json:"input"`
	Stream     bool           `json:"stream,omitempty"`
	Previous   string         `json:"previous_response_id,omitempty"`
	Truncation string         `json:"truncation,omitempty"`
	Holon      map[string]any `json:"holon,omitempty"`
}

// target is a server under load, with the connections to it.
type target struct {
	*server
	client *http.Client
}

// target returns a server with c connections that are kept.
func (r *rig) target(s *server, c int) *target {
	client := unixClient(s.socket)
	if t, ok := client.Transport.(*http.Transport); ok {
		t.MaxIdleConnsPerHost, t.ReadBufferSize = c, 64<<10
	}
	r.later(func() error { client.CloseIdleConnections(); return nil })
	return &target{s, client}
}

// do sends a request and returns the answer to it, which must be good.
func (t *target) do(ctx context.Context, method, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	req, err := http.NewRequestWithContext(ctx, method, "http://server"+path, bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := t.client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode != http.StatusOK {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4<<10)) // explains the status
		return nil, fmt.Errorf("%s: %s", resp.Status, text)
	}
	return resp, nil
}

// create makes a turn that answers in one piece, and returns its response's id.
func (t *target) create(ctx context.Context, a ask) (id string, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	resp, err := t.do(ctx, http.MethodPost, "/responses", a)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var answer struct{ ID, Status string }
	if err := json.NewDecoder(resp.Body).Decode(&answer); err != nil {
		return "", err
	}
	if answer.Status != "completed" {
		return "", fmt.Errorf("the turn is %s", answer.Status)
	}
	return answer.ID, nil
}

// streamed is what was read of a stream.
type streamed struct {
	events, deltas int
	lost           int // events whose number is not the one after that of the event before
	ended          bool
	ages           []time.Duration // of the deltas that say when they were sent
	lines          []byte          // the events as they came, if they were kept
}

// stream makes a turn and reads its stream to the end.
func (t *target) stream(ctx context.Context, a ask, keep bool) (*streamed, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*patience)
	defer cancel()
	a.Stream = true
	resp, err := t.do(ctx, http.MethodPost, "/responses", a)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	s := &streamed{}
	return s, s.read(resp.Body, keep)
}

var (
	deltaMark  = []byte(`"response.output_text.delta"`)
	numberMark = []byte(`"sequence_number":`)
	doneMark   = []byte(`"response.completed"`)
	responseID = regexp.MustCompile(`"id":"(resp_[0-9a-z]+)"`)
	stampMark  = regexp.MustCompile(`"delta":"t(\d{19}) "`)
)

// read reads a stream from where s stands.
func (s *streamed) read(body io.Reader, keep bool) error {
	in := bufio.NewReaderSize(body, 256<<10)
	var long []byte
	for {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			long = append(long, line...)
			continue
		}
		if len(long) > 0 {
			line, long = append(long, line...), nil
		}
		if data, ok := bytes.CutPrefix(line, []byte("data: {")); ok && err == nil {
			s.take(data)
			if keep {
				s.lines = append(append(s.lines, '{'), data...)
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("read the stream: %w", err)
		}
	}
}

func (s *streamed) take(data []byte) {
	if at := bytes.Index(data, numberMark); at < 0 || number64(data[at+len(numberMark):]) != s.events {
		s.lost++
	}
	s.events++
	head := data[:min(len(data), 200)] // the type stands in the beginning; the last event is long
	switch {
	case bytes.Contains(head, deltaMark):
		s.deltas++
		if m := stampMark.FindSubmatch(data); m != nil {
			sent, _ := strconv.ParseInt(string(m[1]), 10, 64)
			s.ages = append(s.ages, time.Since(time.Unix(0, sent)))
		}
	case bytes.Contains(head, doneMark):
		s.ended = true
	}
}

// number64 reads the digits at the beginning of data.
func number64(data []byte) (n int) {
	for _, c := range data {
		if c < '0' || c > '9' {
			break
		}
		n = 10*n + int(c-'0')
	}
	return n
}

// whole checks that nothing is missing of a stream with n deltas.
func (s *streamed) whole(n int) error {
	if s.lost > 0 || s.deltas != n || !s.ended {
		return fmt.Errorf("the stream has %d of %d deltas, %d gaps, end %t", s.deltas, n, s.lost, s.ended)
	}
	return nil
}

// parallel calls job n times, c at a time, and returns how long each call took
// and all of them together. The first error ends it.
func parallel(ctx context.Context, n, c int, job func(ctx context.Context, i int) error) (took []time.Duration,
	all time.Duration, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	took = make([]time.Duration, n)
	next := make(chan int)
	var group sync.WaitGroup
	began := time.Now()
	for range c {
		group.Go(func() {
			for i := range next {
				start := time.Now()
				if err := job(ctx, i); err != nil {
					cancel(err)
					return
				}
				took[i] = time.Since(start)
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
	return took, time.Since(began), context.Cause(ctx)
}

// quantile returns the value below which the part q of a list lies.
func quantile(list []time.Duration, q float64) time.Duration {
	sorted := slices.Sorted(slices.Values(list))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
