package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"sync"
)

// model speaks as much of the Responses API as a client that streams needs. The
// name fake-N means an answer of N text deltas, sent in one piece, so that what
// is measured in front of it is never the model.
type model struct {
	mu      sync.Mutex
	answers map[string][]byte // by model name
}

func newModel() http.Handler {
	m := &model{answers: make(map[string][]byte)}
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
	if err != nil || !request.Stream {
		http.Error(w, "send a JSON object with stream: true", http.StatusBadRequest)
		return
	}
	answer, err := m.answer(request.Model)
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = w.Write(answer) // a client that left is not our business
}

var namePattern = regexp.MustCompile(`^fake-(\d{1,6})$`)

// answer returns the whole stream of a model, made once.
func (m *model) answer(name string) ([]byte, error) {
	match := namePattern.FindStringSubmatch(name)
	if match == nil {
		return nil, fmt.Errorf("no model %.80q; the models are fake-N", name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.answers[name] == nil {
		deltas, _ := strconv.Atoi(match[1])
		m.answers[name] = answerOf(name, deltas)
	}
	return m.answers[name], nil
}

type object = map[string]any

// answerOf is the event sequence of one message of the given number of deltas.
func answerOf(name string, deltas int) []byte {
	const delta = "word "
	s := &sequence{}
	var text string
	response := func(status string, output []any) object {
		return object{"id": "resp_floor", "object": "response", "created_at": 1700000000, "status": status, "model": name, "output": output,
			"usage": object{"input_tokens": 10, "output_tokens": deltas, "total_tokens": 10 + deltas,
				"input_tokens_details": object{"cached_tokens": 0}, "output_tokens_details": object{"reasoning_tokens": 0}}}
	}
	item := func(status string, content ...any) object {
		return object{"id": "msg_floor", "type": "message", "role": "assistant", "status": status, "content": append([]any{}, content...)}
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
	for range deltas {
		text += delta
		s.add("response.output_text.delta", at(object{"delta": delta, "logprobs": []any{}}))
	}
	s.add("response.output_text.done", at(object{"text": text, "logprobs": []any{}}))
	s.add("response.content_part.done", at(object{"part": part(text)}))
	s.add("response.output_item.done", object{"output_index": 0, "item": item("completed", part(text))})
	s.add("response.completed", object{"response": response("completed", []any{item("completed", part(text))})})
	return s.frames
}

// sequence collects numbered events as server-sent events.
type sequence struct {
	frames []byte
	next   int
}

func (s *sequence) add(kind string, fields object) {
	fields["type"], fields["sequence_number"] = kind, s.next
	s.next++
	data, err := json.Marshal(fields)
	if err != nil {
		panic(err) // maps of strings and numbers always marshal
	}
	s.frames = fmt.Appendf(s.frames, "event: %s\ndata: %s\n\n", kind, data)
}
