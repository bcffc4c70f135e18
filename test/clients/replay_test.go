package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holon/responses/stream"
	"holon/test/conform"
	"holon/test/expect"
)

// Any answers of a model, cancelled at any time, give a legal stream. The same
// stream is on disk and replayed, and its deltas give the final response.
func TestDeltasGiveTheResponse(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.caller(t)
	turns := 0
	statuses := make(map[any]int)
	rapid.Check(t, func(t *rapid.T) {
		turns++
		name := fmt.Sprintf("random%d", turns)
		expect.NoError(t, os.WriteFile(filepath.Join(s.dir, "workspace", name+".yaml"),
			[]byte(scripts().Draw(t, "script").String()), 0o600))
		shown := rapid.Bool().Draw(t, "tool calls shown")
		cancelAt := rapid.IntRange(-20, 40).Draw(t, "cancelled at event") // most often not at all
		include := `[]`
		if shown {
			include = `["holon:tool_calls"]`
		}
		body := fmt.Sprintf(`{"model":"scripted/%s","input":"go","stream":true,"include":%s,"tools":[%s],`+
			`"holon":{"turn_id":"turn_%s"}}`, name, include, lookUp, name)
		wire, err := c.turn(body, cancelAt)
		expect.NoError(t, err)
		checker := conform.Checker{Extensions: shown}
		if err := checker.Stream(wire, stream.SSE); err != nil {
			t.Fatalf("%v: %s", err, wire)
		}
		events := split(t, wire)
		built, final, err := rebuild(events)
		if err != nil {
			t.Fatalf("%v: %s", err, wire)
		}
		if diff := differ(built, final); diff != "" {
			t.Fatalf("the deltas do not give the response: %s\n%s", diff, wire)
		}
		statuses[final["status"]]++
		disk, err := os.ReadFile(filepath.Join(s.dir, "output", "turns", "turn_"+name, "events.ndjson"))
		expect.NoError(t, err)
		if !bytes.Equal(disk, append(bytes.Join(events, []byte{'\n'}), '\n')) {
			t.Fatalf("the log is\n%s\nand the stream\n%s", disk, wire)
		}
		c.compareStored(t, final, wire)
	})
	t.Logf("%d turns ended as %v", turns, statuses)
	if statuses["completed"] == 0 || statuses["completed"] == turns {
		t.Errorf("the scripts are not varied enough: %v", statuses)
	}
}

// A stream that lost something does not give its response.
func TestRebuildNeedsEveryDelta(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.caller(t)
	wire, err := c.turn(`{"model":"scripted/clients","input":"Weather in Paris? Say hello.","stream":true,"tools":[`+
		lookUp+`]}`, -1)
	expect.NoError(t, err)
	events := split(t, wire)
	deltas := 0
	for i, data := range events {
		if !bytes.Contains(data, []byte(`.delta"`)) {
			continue
		}
		deltas++
		built, final, err := rebuild(slices.Delete(slices.Clone(events), i, i+1))
		if err == nil && differ(built, final) == "" {
			t.Errorf("without %s nothing is missed", data)
		}
	}
	if deltas < 3 {
		t.Errorf("only %d deltas: %s", deltas, wire)
	}
}

// caller calls a server.
type caller struct {
	http *http.Client
	ctx  context.Context // of the test
}

func (s *server) caller(t *testing.T) *caller {
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", s.socket)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	return &caller{http: &http.Client{Transport: transport}, ctx: t.Context()}
}

// do sends a request; the caller closes the answer.
func (c *caller) do(method, path, body string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(c.ctx, method, "http://agentd/v1/responses"+path, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	return c.http.Do(req)
}

func (c *caller) read(method, path string) (status int, body []byte, err error) {
	resp, err := c.do(method, path, "")
	if err != nil {
		return 0, nil, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(resp.Body)
	return resp.StatusCode, body, err
}

// turn reads a whole stream and cancels its response after an event, if there
// is one of that number.
func (c *caller) turn(body string, cancelAt int) (wire []byte, err error) {
	resp, err := c.do(http.MethodPost, "", body)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		data, err := io.ReadAll(resp.Body)
		return nil, fmt.Errorf("answered %d: %s (%v)", resp.StatusCode, data, err)
	}
	var seen bytes.Buffer
	n := 0
	for _, err := range stream.NewDecoder(io.TeeReader(resp.Body, &seen), stream.SSE).Events() {
		if err != nil {
			return nil, fmt.Errorf("%w after %s", err, seen.Bytes())
		}
		if n == cancelAt {
			if err := c.cancel(seen.Bytes()); err != nil {
				return nil, err
			}
		}
		n++
	}
	_, err = io.Copy(&seen, resp.Body)
	return seen.Bytes(), err
}

// cancel cancels the response whose stream begins like that. It may have ended
// already.
func (c *caller) cancel(wire []byte) error {
	_, after, ok := bytes.Cut(wire, []byte(`"response":{"id":"`))
	if !ok {
		return fmt.Errorf("no id in %.200s", wire)
	}
	id, _, _ := bytes.Cut(after, []byte{'"'})
	status, body, err := c.read(http.MethodPost, "/"+string(id)+"/cancel")
	if err == nil && status != http.StatusOK && status != http.StatusBadRequest {
		err = fmt.Errorf("cancel answered %d: %s", status, body)
	}
	return err
}

// compareStored: what is stored is what was streamed.
func (c *caller) compareStored(t *rapid.T, final object, wire []byte) {
	t.Helper()
	path := "/" + final["id"].(string)
	status, body, err := c.read(http.MethodGet, path)
	var got object
	if err == nil {
		err = json.Unmarshal(body, &got)
	}
	if err != nil || status != http.StatusOK {
		t.Fatalf("GET answered %d: %v: %s", status, err, body)
	}
	if diff := differ(got, final); diff != "" {
		t.Fatalf("GET gives another response: %s", diff)
	}
	if _, again, err := c.read(http.MethodGet, path+"?stream=true"); err != nil ||
		!slices.EqualFunc(split(t, again), split(t, wire), bytes.Equal) {
		t.Fatalf("the replay is\n%s\nand was\n%s\n%v", again, wire, err)
	}
}

// split returns the events of a stream.
func split(t interface {
	Helper()
	Fatalf(string, ...any)
}, wire []byte) (events [][]byte) {
	t.Helper()
	for data, err := range stream.NewDecoder(bytes.NewReader(wire), stream.SSE).Events() {
		if err != nil {
			t.Fatalf("%v in %.2000s", err, wire)
		}
		events = append(events, bytes.Clone(data))
	}
	return events
}
