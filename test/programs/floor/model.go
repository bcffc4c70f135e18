package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
	"time"
)

// model speaks as much of the Responses API as a client needs. The name fake-N
// means an answer of N text deltas, sent in one piece, so that what is measured
// in front of it is never the model. fake-N-GAP sends a delta every GAP
// microseconds, each with the time at which it was sent. Either may be preceded by
// openai/, as agentd wants it.
type model struct {
	mu      sync.Mutex
	answers map[string]*answer // by model name
}

func newModel() http.Handler {
	m := &model{answers: make(map[string]*answer)}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/responses", m.create)
	return mux
}

func (m *model) create(w http.ResponseWriter, r *http.Request) {
	var request struct {
		Model  string `json:"model"`
		Stream bool   `json:"stream"`
	}
	err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 64<<20)).Decode(&request)
	if err != nil {
		http.Error(w, "send a JSON object", http.StatusBadRequest)
		return
	}
	match := namePattern.FindStringSubmatch(request.Model)
	if match == nil {
		http.Error(w, fmt.Sprintf("no model %.80q; the models are fake-N and fake-N-GAP", request.Model),
			http.StatusNotFound)
		return
	}
	deltas, _ := strconv.Atoi(match[1])
	a := m.answer(request.Model, deltas)
	switch {
	case !request.Stream:
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(a.whole) // a client that left is not our business
	case match[2] == "":
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(a.stream)
	default:
		gap, _ := strconv.Atoi(match[2])
		w.Header().Set("Content-Type", "text/event-stream")
		a.pace(r.Context(), w, deltas, time.Duration(gap)*time.Microsecond)
	}
}

var namePattern = regexp.MustCompile(`^(?:openai/)?fake-(\d{1,6})(?:-(\d{1,9}))?$`)

type answer struct {
	stream []byte // as a stream
	head   int    // events before the first delta
	tail   int    // where events go on after the last
	whole  []byte // as one JSON object
}

// answer returns the answer of a model, made once.
func (m *model) answer(name string, deltas int) *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers[name] == nil {
		m.answers[name] = answerOf(name, deltas)
	}
	return m.answers[name]
}

func (a *answer) pace(ctx context.Context, w http.ResponseWriter, deltas int, gap time.Duration) {
	flush := http.NewResponseController(w).Flush
	_, _ = w.Write(a.stream[:a.head])
	_ = flush()
	ticks := time.NewTicker(gap)
	defer ticks.Stop()
	for n := range deltas {
		select {
		case <-ticks.C:
		case <-ctx.Done():
			return
		}
		_, _ = fmt.Fprintf(w, `data: {"type":"response.output_text.delta","sequence_number":%d,"item_id":"msg_floor",`+
			`"output_index":0,"content_index":0,"delta":"t%d ","logprobs":[]}`+"\n\n", 4+n, time.Now().UnixNano())
		_ = flush()
	}
	_, _ = w.Write(a.stream[a.tail:])
}

type object = map[string]any

// answerOf is the event sequence of one message of the given number of deltas.
func answerOf(name string, deltas int) *answer {
	const delta = "word "
	s := &sequence{}
	var text string
	response := func(status string, output []any) object {
		return object{"id": "resp_floor", "object": "response", "created_at": 1700000000, "status": status,
			"model": name, "output": output,
			"usage": object{"input_tokens": 10, "output_tokens": deltas, "total_tokens": 10 + deltas,
				"input_tokens_details":  object{"cached_tokens": 0},
				"output_tokens_details": object{"reasoning_tokens": 0}}}
	}
	item := func(status string, content ...any) object {
		return object{"id": "msg_floor", "type": "message", "role": "assistant", "status": status,
			"content": append([]any{}, content...)}
	}
	part := func(text string) object {
		return object{"type": "output_text", "text": text, "annotations": []any{}, "logprobs": []any{}}
	}
	at := func(fields object) object {
		fields["item_id"], fields["output_index"], fields["content_index"] = "msg_floor", 0, 0
		return fields
	}
	s.add("response.created", object{"response": response("in_progress", []any{})})
	s.add("response.in_progress", object{"response": response("in_progress", []any{})})
	s.add("response.output_item.added", object{"output_index": 0, "item": item("in_progress")})
	s.add("response.content_part.added", at(object{"part": part("")}))
	a := &answer{head: len(s.stream)}
	for range deltas {
		text += delta
		s.add("response.output_text.delta", at(object{"delta": delta, "logprobs": []any{}}))
	}
	a.tail = len(s.stream)
	s.add("response.output_text.done", at(object{"text": text, "logprobs": []any{}}))
	s.add("response.content_part.done", at(object{"part": part(text)}))
	s.add("response.output_item.done", object{"output_index": 0, "item": item("completed", part(text))})
	s.add("response.completed", object{"response": response("completed", []any{item("completed", part(text))})})
	a.stream, a.whole = s.stream, encoded(response("completed", []any{item("completed", part(text))}))
	return a
}

func encoded(v object) []byte { return must(json.Marshal(v)) }

// sequence collects numbered events as server-sent events.
type sequence struct {
	stream []byte
	next   int
}

// add adds an event, whose type comes first, as providers have it.
func (s *sequence) add(kind string, fields object) {
	fields["sequence_number"] = s.next
	s.next++
	s.stream = fmt.Appendf(s.stream, "event: %s\ndata: {\"type\":%q,%s\n\n", kind, kind, encoded(fields)[1:])
}
