package stream_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"

	"holon/responses"
	"holon/responses/stream"
	"holon/test/expect"
)

const (
	created   = `{"type":"response.created","sequence_number":0}`
	delta     = `{"type":"response.output_text.delta","sequence_number":1,"delta":"héllo\n"}`
	completed = `{"type":"response.completed","sequence_number":2}`
)

func sseOf(lines ...string) string {
	return string(stream.SSE.AppendEnd(stream.SSE.Append(nil, []byte(strings.Join(lines, "\n")))))
}

func TestAppendGolden(t *testing.T) {
	got := sseOf(created, delta, completed)
	want := "event: response.created\ndata: " + created + "\n\n" +
		"event: response.output_text.delta\ndata: " + delta + "\n\n" +
		"event: response.completed\ndata: " + completed + "\n\n" +
		"data: [DONE]\n\n"
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("SSE (-want +got):\n%s", diff)
	}
	nd := string(stream.NDJSON.AppendEnd(stream.NDJSON.Append(nil, []byte(created+"\n\n"+completed))))
	expect.Equal(t, "NDJSON", nd, created+"\n"+completed+"\n")
	expect.Equal(t, "pings", string(stream.SSE.AppendPing(nil))+string(stream.NDJSON.AppendPing(nil)), ": ping\n")
}

func FuzzAppendEvent(f *testing.F) {
	for _, s := range []string{created, delta, `{"a":1}`, "{\"type\":\"x\",\r\n\"b\":2}", "a\rdata: b\n\nevent: c",
		`{"type":"a` + "\r" + `b"}`, "\n", "\r\n\r\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 {
			return
		}
		got := stream.AppendEvent([]byte("before"), "", responses.EventType(line), line)
		if !bytes.HasPrefix(got, []byte("before")) {
			t.Fatalf("the buffer was overwritten: %q", got)
		}
		if n := bytes.Count(got[6:], []byte("\n\n")); n != 1 {
			t.Fatalf("AppendEvent(%q) made %d frames: %q", line, n, got[6:])
		}
	})
}

func collect(r io.Reader, f stream.Framing) (events []string, err error) {
	for data, e := range stream.NewDecoder(r, f).Events() {
		if e != nil {
			return events, e
		}
		events = append(events, string(data))
	}
	return events, nil
}

func TestEvents(t *testing.T) {
	all := []string{created, delta, completed}
	crlf := strings.ReplaceAll(sseOf(all...), "\n", "\r\n")
	multi := `{"type":"response.completed",` + "\n" + `"sequence_number":2}`
	tests := []struct {
		name    string
		framing stream.Framing
		in      string
		want    []string
		err     error
	}{
		{"sse", stream.SSE, sseOf(all...), all, nil},
		{"sse with CRLF", stream.SSE, crlf, all, nil},
		{"sse with CR", stream.SSE, strings.ReplaceAll(sseOf(all...), "\n", "\r"), all, nil},
		{"sse with a byte order mark", stream.SSE, "\ufeff" + sseOf(all...), all, nil},
		{"sse with heartbeats", stream.SSE,
			": ping\n" + sseOf(created)[:len(sseOf(created))-len("data: [DONE]\n\n")] + ": x\n\n" +
				": ping\n" + sseOf(completed), []string{created, completed}, nil},
		{"sse without space, event and [DONE]", stream.SSE, "data:" + completed + "\n\n", []string{completed}, nil},
		{"sse with ids and unknown fields", stream.SSE, "id: 7\nfoo: bar\nretry: 5\ndata: " + completed + "\n\n",
			[]string{completed}, nil},
		{"sse over two data lines", stream.SSE, "data: " + strings.ReplaceAll(multi, "\n", "\ndata: ") + "\n\n",
			[]string{multi}, nil},
		{"sse ends early", stream.SSE, "data: " + created + "\n\n", []string{created}, stream.ErrTruncated},
		{"sse done too early", stream.SSE, sseOf(created), []string{created}, stream.ErrTruncated},
		{"sse cut within an event", stream.SSE, "data: " + created + "\n\ndata: " + completed[:20], []string{created},
			stream.ErrTruncated},
		{"sse without the last blank line", stream.SSE, "data: " + created + "\n\ndata: " + completed + "\n",
			[]string{created, completed}, nil},
		{"sse without the last line end", stream.SSE, "data: " + created + "\n\ndata: " + completed,
			[]string{created, completed}, nil},
		{"sse with a bare [DONE]", stream.SSE, strings.TrimSpace(sseOf(completed)), []string{completed}, nil},
		{"sse empty", stream.SSE, "", nil, stream.ErrTruncated},
		{"sse after [DONE]", stream.SSE, sseOf(completed) + "data: {}\n\n", []string{completed}, nil},
		{"sse lone error", stream.SSE, "data: {\"type\":\"error\"}\n\n", []string{`{"type":"error"}`}, nil},
		{"type is not the first key", stream.SSE, "data: {\"a\":1,\"type\":\"response.failed\"}\n\n",
			[]string{`{"a":1,"type":"response.failed"}`}, nil},
		{"type is spelt another way", stream.SSE, "data: {\"type\" : \"response.\\u0063ompleted\"}\n\n",
			[]string{`{"type" : "response.\u0063ompleted"}`}, nil},
		{"no json", stream.SSE, "data: hello\n\n", []string{"hello"}, stream.ErrTruncated},
		{"ndjson", stream.NDJSON, created + "\n" + completed + "\n", []string{created, completed}, nil},
		{"ndjson with CRLF and blanks", stream.NDJSON, created + "\r\n\r\n\n" + completed + "\r\n",
			[]string{created, completed}, nil},
		{"ndjson without last line end", stream.NDJSON, created + "\n" + completed, []string{created, completed}, nil},
		{"ndjson cut", stream.NDJSON, created + "\n" + completed[:20], []string{created}, stream.ErrTruncated},
		{"ndjson ends early", stream.NDJSON, created + "\n", []string{created}, stream.ErrTruncated},
		{"ndjson empty", stream.NDJSON, "", nil, stream.ErrTruncated},
	}
	for _, tt := range tests {
		for how, r := range map[string]io.Reader{
			"whole": strings.NewReader(tt.in), "by byte": iotest.OneByteReader(strings.NewReader(tt.in)),
			"data with EOF": iotest.DataErrReader(strings.NewReader(tt.in)),
			"by half":       iotest.HalfReader(strings.NewReader(tt.in)),
		} {
			got, err := collect(r, tt.framing)
			if !errors.Is(err, tt.err) || (err == nil) != (tt.err == nil) {
				t.Errorf("%s, %s: error %v, want %v", tt.name, how, err, tt.err)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s, %s: %q, want %q", tt.name, how, got, tt.want)
			}
		}
	}
}

var errBroken = errors.New("connection reset")

func TestEventsReportsTheReader(t *testing.T) {
	for _, f := range []stream.Framing{stream.SSE, stream.NDJSON} {
		part := f.Append(nil, []byte(created))
		_, err := collect(io.MultiReader(bytes.NewReader(part), iotest.ErrReader(errBroken)), f)
		if !errors.Is(err, errBroken) {
			t.Errorf("%v: %v, want the reader's error", f, err)
		}
		_, err = collect(io.MultiReader(bytes.NewReader(part), iotest.ErrReader(io.ErrUnexpectedEOF)), f)
		if !errors.Is(err, stream.ErrTruncated) {
			t.Errorf("%v: %v, want ErrTruncated for a body that was cut off", f, err)
		}
		whole := f.Append(nil, []byte(created+"\n"+completed))
		if _, err := collect(io.MultiReader(bytes.NewReader(whole), iotest.ErrReader(errBroken)), f); err != nil {
			t.Errorf("%v: %v after the terminal event", f, err)
		}
		if _, err := collect(stuck{}, f); !errors.Is(err, io.ErrNoProgress) {
			t.Errorf("%v: %v, want io.ErrNoProgress", f, err)
		}
	}
}

type stuck struct{}

func (stuck) Read([]byte) (int, error) { return 0, nil }

// A hostile peer sends an event without end, in one line or in many. It is cut off at the bound, and
// within time linear in what it sent, however small its pieces.
func TestEventsAreBounded(t *testing.T) {
	for _, f := range []stream.Framing{stream.SSE, stream.NDJSON} {
		_, err := collect(io.MultiReader(strings.NewReader("data: "), &endless{unit: strings.Repeat("x", 1<<10)}), f)
		if !errors.Is(err, stream.ErrTooLarge) {
			t.Errorf("%v, one line: %v, want ErrTooLarge", f, err)
		}
	}
	lines := &endless{unit: strings.Repeat("data:\n", 170)}
	var err error
	for _, err = range stream.NewDecoder(lines, stream.SSE).Limit(1 << 20).Events() {
	}
	expect.ErrorIs(t, "endless lines", err, stream.ErrTooLarge)
}

// A reader may take less than MaxEvent, which then bounds any framing alike.
func TestLimit(t *testing.T) {
	for _, limit := range []int{100, 1000, 1_000_000, stream.MaxEvent} {
		for _, f := range []stream.Framing{stream.SSE, stream.NDJSON} {
			for more, want := range map[int]error{-50: nil, 1: stream.ErrTooLarge, limit: stream.ErrTooLarge} {
				event := `{"type":"response.completed","x":"` + strings.Repeat("y", limit+more-36) + `"}`
				n := 0
				var err error
				for _, err = range stream.NewDecoder(bytes.NewReader(f.Append(nil, []byte(event))),
					f).Limit(limit).Events() {
					n++
				}
				if !errors.Is(err, want) || n != 1 {
					t.Errorf("%v, limit %d, event of %d bytes: %d, %v", f, limit, len(event), n, err)
				}
			}
		}
	}
}

type endless struct{ unit string }

func (e *endless) Read(p []byte) (int, error) { return copy(p, e.unit), nil }

func TestStopEarly(t *testing.T) {
	for _, f := range []stream.Framing{stream.SSE, stream.NDJSON} {
		n := 0
		for range stream.NewDecoder(bytes.NewReader(f.Append(nil, []byte(created+"\n"+completed))), f).Events() {
			n++
			break
		}
		if n != 1 {
			t.Errorf("%v: %d events after break", f, n)
		}
	}
}

func TestNegotiation(t *testing.T) {
	for accept, want := range map[string]stream.Framing{
		"": stream.SSE, "*/*": stream.SSE, "application/json": stream.SSE, "text/event-stream": stream.SSE,
		"application/x-ndjson": stream.NDJSON, "Application/X-NDJSON; q=0.5": stream.NDJSON,
		"application/json, application/x-ndjson": stream.NDJSON,
		"application/x-ndjson;q=0":               stream.SSE, "application/x-ndjson;q=0.00": stream.SSE,
		";;;": stream.SSE,
	} {
		if got := stream.Accepted(accept); got != want {
			t.Errorf("Accepted(%q) = %v, want %v", accept, got, want)
		}
	}
}

// Events must not depend on how arbitrary bytes are split on arrival, and agree
// with go-sse on what the whole events are.
func FuzzEvents(f *testing.F) {
	for _, s := range []string{sseOf(created, delta, completed), "data: a\r\n\r\ndata: b\r\rdata",
		"\n\n\r\n: c\n\ndata\n\nevent: x\n\n", "id: 1\n\ndata:\n\n", created + "\n" + completed,
		"event: a\rdata: b\ndata: c\n\n", "data: a\n\n\ufeffdata: b\n\n", "event: \n\ndata: x\n\n", "\ufeffdata: a\n\n",
		"\n\n\ufeffdata: a\n\n", "event: x\ndata: a\ndata: b\n\n", "data: a\r\n\r\n\ndata: b\n\n"} {
		f.Add([]byte(s), true)
		f.Add([]byte(s), false)
	}
	f.Fuzz(func(t *testing.T, data []byte, asSSE bool) {
		framing := stream.NDJSON
		if asSSE {
			framing = stream.SSE
		}
		whole, err1 := collect(bytes.NewReader(data), framing)
		bytewise, err2 := collect(iotest.OneByteReader(bytes.NewReader(data)), framing)
		if !slices.Equal(whole, bytewise) || fmt.Sprint(err1) != fmt.Sprint(err2) {
			t.Fatalf("whole: %q, %v\nby byte: %q, %v", whole, err1, bytewise, err2)
		}
		if !asSSE || !bytes.HasSuffix(data, []byte("\n\n")) {
			return
		}
		var want []string
		for ev, err := range sse.Read(bytes.NewReader(data), &sse.ReadConfig{MaxEventSize: 1 << 20}) {
			if err != nil || ev.Data == "[DONE]" {
				break
			}
			if ev.Data != "" {
				want = append(want, ev.Data)
			}
		}
		if !slices.Equal(whole, want) {
			t.Fatalf("events of %q are %q, go-sse reads %q", data, whole, want)
		}
	})
}

func FuzzRoundTrip(f *testing.F) {
	f.Add([]byte(delta))
	f.Fuzz(func(t *testing.T, line []byte) {
		if len(line) == 0 || bytes.ContainsAny(line, "\r\n") || string(line) == "[DONE]" {
			return
		}
		for _, framing := range []stream.Framing{stream.SSE, stream.NDJSON} {
			got, err := collect(bytes.NewReader(
				framing.AppendEnd(framing.Append(nil, append(slices.Clone(line), "\n"+completed...)))), framing)
			if err != nil || len(got) != 2 || got[0] != string(line) {
				t.Fatalf("%v: %q became %q, %v", framing, line, got, err)
			}
		}
	})
}
