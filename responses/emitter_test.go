package responses_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/test/conform"
	"holon/test/expect"
)

var update = flag.Bool("update", false, "rewrite the golden files in testdata")

var mintedID = regexp.MustCompile(`"(resp|msg|rs|fc)_[0-9a-z]{26}"`)

// golden compares a stream, one event a line, with testdata/name. Minted ids
// are replaced by the order in which they appear.
func golden(t *testing.T, name string, lines []byte) {
	t.Helper()
	seen := make(map[string]string)
	got := mintedID.ReplaceAllFunc(lines, func(id []byte) []byte {
		if _, ok := seen[string(id)]; !ok {
			prefix, _, _ := bytes.Cut(id, []byte{'_'})
			seen[string(id)] = fmt.Sprintf("%s_%d\"", prefix, len(seen)+1)
		}
		return []byte(seen[string(id)])
	})
	file := filepath.Join("testdata", name)
	if *update {
		expect.NoError(t, os.MkdirAll("testdata", 0o755))
		expect.NoError(t, os.WriteFile(file, got, 0o644))
	}
	want, err := os.ReadFile(file)
	expect.NoError(t, err)
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// recorder is a sink that keeps what it takes and fails at a chosen event.
type recorder struct {
	lines  [][]byte
	failAt int // -1: never
}

var errSink = errors.New("the disk is full")

func (r *recorder) take(eventType string, data []byte) error {
	if len(r.lines) == r.failAt {
		return errSink
	}
	if got := responses.EventType(data); got != eventType {
		return fmt.Errorf("the sink got %q and data of type %q", eventType, got)
	}
	r.lines = append(r.lines, bytes.Clone(data))
	return nil
}

func (r *recorder) joined() []byte { return append(bytes.Join(r.lines, []byte{'\n'}), '\n') }

// check holds the recorded events against the protocol; ended says whether
// they must be a whole stream.
func check(lines [][]byte, ended bool) error {
	c := conform.Checker{Extensions: bytes.Contains(bytes.Join(lines, nil), []byte(`"holon:tool_call"`))}
	for _, line := range lines {
		if err := c.Event(line); err != nil {
			return err
		}
	}
	if ended {
		return c.End()
	}
	return nil
}

func request(t testing.TB, body string) *responses.Request {
	t.Helper()
	r, err := responses.DecodeRequest([]byte(body))
	expect.NoError(t, err)
	return r
}

func newResponse(t testing.TB, status responses.Status) responses.Response {
	resp := responses.NewResponse("resp_1", "scripted/demo", 1_700_000_000, request(t, `{"model":"m","input":"hi"}`))
	resp.Status = status
	return resp
}

var usage = responses.Usage{InputTokens: 11, OutputTokens: 7, TotalTokens: 18,
	InputTokenDetails:  responses.InputTokenDetails{CachedTokens: 3},
	OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: 2}}

// streams are scenes that together show every event an Emitter can make.
var streams = map[string]func(e *responses.Emitter) error{
	"text": func(e *responses.Emitter) error {
		return errors.Join(e.Text("Hel"), e.Text("lo"), e.Complete(usage, 1_700_000_001))
	},
	"everything": func(e *responses.Emitter) error {
		err := errors.Join(e.Begin(), e.BeginReasoning(), e.Summary("think"), e.Summary("ing"), e.EndPart(),
			e.Summary("more"))
		e.SetEncryptedReasoning("opaque")
		err = errors.Join(err, e.BeginMessage(responses.PhaseCommentary), e.Text("I look at <it>.\n"))
		e.Annotate(responses.Annotation{Type: "url_citation", URL: "https://example.com/", Title: "t", StartIndex: 2,
			EndIndex: 6})
		e.Annotate(responses.Annotation{Type: "url_citation", URL: "https://example.com/2", Title: "u"})
		err = errors.Join(err, e.BeginMessage(""), e.Text(""), e.Refusal("I will "), e.Refusal("not"))
		e.DefaultPhase(responses.PhaseFinalAnswer)
		return errors.Join(err, e.BeginFunctionCall("call_1", "get_weather"), e.Arguments(`{"city":`),
			e.Arguments(`"Köln"}`),
			e.BeginFunctionCall("call_2", "noop"), e.Complete(usage, 1_700_000_001))
	},
	"raw-reasoning": func(e *responses.Emitter) error {
		return errors.Join(e.ReasoningText("raw"), e.Summary("short"), e.ReasoningText("again"), e.Complete(usage, 1))
	},
	"incomplete": func(e *responses.Emitter) error {
		return errors.Join(e.Text("half an ans"), e.Incomplete(responses.ReasonMaxOutputTokens, usage))
	},
	"failed": func(e *responses.Emitter) error {
		return errors.Join(e.BeginFunctionCall("call_1", "f"), e.Arguments("{"),
			e.Fail(&responses.Error{Type: responses.TypeModelError, Code: responses.CodeRateLimit, Message: "slow down",
				Hint: "wait"}, usage))
	},
	"cancelled": func(e *responses.Emitter) error {
		return e.Cancel(&responses.Error{Type: responses.TypeServerError, Code: responses.CodeCancelled,
			Message: "stopped"}, responses.Usage{})
	},
	"empty": func(e *responses.Emitter) error {
		return errors.Join(e.BeginMessage(responses.PhaseFinalAnswer), e.Complete(usage, 1))
	},
	"failed-without-cause": func(e *responses.Emitter) error { return e.Fail(nil, usage) },
}

func record(t testing.TB, name string) *recorder {
	t.Helper()
	status := responses.StatusInProgress
	if name == "everything" || name == "cancelled" {
		status = responses.StatusQueued
	}
	rec := &recorder{failAt: -1}
	e, err := responses.NewEmitter(newResponse(t, status), rec.take)
	expect.NoError(t, err)
	if err := streams[name](e); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	if !e.Ended() {
		t.Errorf("%s: the stream has not ended", name)
	}
	return rec
}

func TestEmitterGolden(t *testing.T) {
	types := map[string]bool{responses.EventError: true} // no stream has it
	for _, name := range slices.Sorted(maps.Keys(streams)) {
		rec := record(t, name)
		if err := check(rec.lines, true); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, line := range rec.lines {
			types[responses.EventType(line)] = true
		}
		golden(t, "stream-"+name+".ndjson", rec.joined())
	}
	if got, want := slices.Sorted(maps.Keys(types)), document(t).Events(); !slices.Equal(got, want) {
		t.Errorf("the streams show %v, want what the protocol's document has: %v", got, want)
	}
}

// Events decoded from a stream are those that were emitted.
func TestDecodeEventOfEveryKind(t *testing.T) {
	for name := range streams {
		for i, line := range record(t, name).lines {
			ev, err := responses.DecodeEvent(line)
			if err != nil {
				t.Fatalf("%s: %s: %v", name, line, err)
			}
			if ev.SequenceNumber != int64(i) || ev.Type != responses.EventType(line) {
				t.Errorf("%s: event %d decoded as %d, %s", name, i, ev.SequenceNumber, ev.Type)
			}
			for part, has := range map[string]bool{"item.": ev.Item != nil, "_part.": ev.Part != nil,
				"annotation.": ev.Annotation != nil, ".delta": ev.Delta != ""} {
				if strings.Contains(ev.Type, part) && !has {
					t.Errorf("%s: %s was decoded without what it is about", name, line)
				}
			}
			if responses.Terminal(ev.Type) && ev.Response == nil {
				t.Errorf("%s: %s has no response", name, line)
			}
		}
	}
}

func TestEmitterRefuses(t *testing.T) {
	rec := &recorder{failAt: -1}
	e, err := responses.NewEmitter(newResponse(t, responses.StatusInProgress), rec.take)
	expect.NoError(t, err)
	if err := e.Arguments("{}"); err == nil {
		t.Error("arguments without a call were taken")
	}
	expect.NoError(t, e.BeginFunctionCall("call_1", "f"))
	before := len(rec.lines)
	for _, bad := range [][2]string{{"call_1", "g"}, {"", "g"}, {strings.Repeat("c", 65), "g"}, {"call_2", ""},
		{"call_2", "a b"}, {"call_2", strings.Repeat("n", 65)}} {
		err := e.BeginFunctionCall(bad[0], bad[1])
		if r, ok := errors.AsType[*responses.Error](err); !ok || r.Type != responses.TypeModelError {
			t.Errorf("BeginFunctionCall(%q, %q): %v", bad[0], bad[1], err)
		}
	}
	if len(rec.lines) != before {
		t.Error("a refused call left events")
	}
	expect.NoError(t, errors.Join(e.BeginFunctionCall("call_2", "g"), e.Complete(usage, 1)))
	expect.NoError(t, check(rec.lines, true))
	for name, err := range map[string]error{"Text": e.Text("x"), "Summary": e.Summary("x"),
		"BeginMessage": e.BeginMessage(""), "EndItem": e.EndItem(), "EndPart": e.EndPart(),
		"BeginFunctionCall": e.BeginFunctionCall("call_3", "f"), "Arguments": e.Arguments("x"), "Begin": e.Begin(),
		"Complete": e.Complete(usage, 1), "Fail": e.Fail(nil, usage)} {
		if !errors.Is(err, responses.ErrStreamEnded) {
			t.Errorf("%s after the end: %v", name, err)
		}
	}
	resp := e.Response()
	if len(resp.Output) != 2 || resp.Status != responses.StatusCompleted {
		t.Errorf("response at the end: %+v", resp)
	}
}

func TestEmitterSinkErrorIsFinal(t *testing.T) {
	whole := len(record(t, "everything").lines)
	for at := range whole {
		rec := &recorder{failAt: at}
		e, err := responses.NewEmitter(newResponse(t, responses.StatusQueued), rec.take)
		if at < 2 {
			if !errors.Is(err, errSink) || e != nil {
				t.Fatalf("NewEmitter with a sink that fails at %d: %v", at, err)
			}
			continue
		}
		if err := streams["everything"](e); !errors.Is(err, errSink) {
			t.Errorf("failing at %d: %v", at, err)
		}
		if len(rec.lines) != at || e.Ended() || e.Response().Status.Terminal() {
			t.Errorf("failing at %d: %d events, ended %t, status %s", at, len(rec.lines), e.Ended(), e.Response().Status)
		}
		if err := e.Fail(nil, usage); !errors.Is(err, errSink) {
			t.Errorf("failing at %d, then Fail: %v", at, err)
		}
	}
}

// A stream can be cut after any event and ended legally by another process.
func TestResumeAnywhere(t *testing.T) {
	for name := range streams {
		lines := record(t, name).lines
		for n := 1; n <= len(lines); n++ {
			if _, err := resume(t, lines[:n]); err != nil {
				t.Errorf("%s cut after %d events: %v", name, n, err)
			}
		}
	}
	if _, err := responses.Resume(slices.Values([]responses.Event(nil)), nil); err == nil {
		t.Error("a stream without events was resumed")
	}
	events := decodeAll(t, record(t, "text").lines)
	if _, err := responses.Resume(slices.Values(events[1:]), nil); err == nil {
		t.Error("a stream without its beginning was resumed")
	}
	for _, kept := range []responses.Event{
		{Type: responses.EventTextDelta, Delta: strings.Repeat("x", 1<<20)},
		{Type: responses.EventPartDone, Part: &responses.Part{Type: responses.PartOutputText,
			Text: strings.Repeat("x", 1<<20)}},
		{Type: responses.EventItemDone, Item: &responses.Message{Role: responses.RoleAssistant}},
	} {
		n := int64(0)
		_, err := responses.Resume(func(yield func(responses.Event) bool) {
			for _, ev := range events[:4] {
				yield(ev)
			}
			for n = 4; ; n++ {
				if kept.SequenceNumber = n; kept.Type == responses.EventPartDone { // another part
					n++
					if kept.SequenceNumber = n; !yield(responses.Event{Type: responses.EventPartAdded,
						SequenceNumber: n - 1, Part: kept.Part}) {
						return
					}
				}
				if !yield(kept) {
					return
				}
			}
		}, nil)
		if err == nil || n > responses.MaxResponse/128 {
			t.Errorf("%s without end: %v after %d", kept.Type, err, n)
		}
	}
	events[3] = responses.Event{Type: "acme:thing", SequenceNumber: 3}
	if _, err := responses.Resume(slices.Values(events), nil); err == nil {
		t.Error("a stream with a foreign event was resumed")
	}
}

func decodeAll(t testing.TB, lines [][]byte) []responses.Event {
	t.Helper()
	var events []responses.Event
	for _, line := range lines {
		ev, err := responses.DecodeEvent(line)
		expect.NoError(t, err)
		events = append(events, ev)
	}
	return events
}

// resume ends the cut stream, checks the whole and returns its output.
func resume(t testing.TB, lines [][]byte) (responses.Items, error) {
	t.Helper()
	rec := &recorder{lines: slices.Clone(lines), failAt: -1}
	e, err := responses.Resume(slices.Values(decodeAll(t, lines)), rec.take)
	if err != nil {
		return nil, err
	}
	if !e.Ended() {
		err = e.Fail(&responses.Error{Type: responses.TypeServerError, Code: responses.CodeInterrupted,
			Message: "interrupted"}, usage)
	}
	if err = errors.Join(err, check(rec.lines, true)); err != nil {
		return nil, fmt.Errorf("%w\n%s", err, rec.joined())
	}
	return e.Response().Output, nil
}

func TestEventType(t *testing.T) {
	for data, want := range map[string]string{
		`{"type":"response.output_text.delta","x":1}`: responses.EventTextDelta, `{"type":"acme:x"}`: "acme:x",
		`{"a":1,"type":"x"}`: "", `{"type":"x`: "", ``: "", `null`: "", `{"type": "x"}`: "",
	} {
		if got := responses.EventType([]byte(data)); got != want {
			t.Errorf("EventType(%s) = %q, want %q", data, got, want)
		}
	}
}
