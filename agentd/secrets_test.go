package agentd_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/conform"
	"holon/responses/turns"
)

// Secrets that equal words of the protocol and of the files of a turn don't break
// the stream, the files or the continuation of the conversation. As a text the same
// words are hidden.
func TestSecretEqualsStructuralWord(t *testing.T) {
	words := []string{"response", "response.output_item", "sequence_number", "function", "required"}
	for _, values := range turns.Constants {
		words = append(words, values...)
	}
	secrets, text := &redact.Set{}, ""
	for i, word := range words {
		if secrets.Add(fmt.Sprintf("A_KEY_%d", i), word) {
			text += word + " , "
		}
	}
	known := func(_ *config.Config, p *agentd.Parts) { p.Secrets = secrets }
	h := start(t, known)
	ref := h.scenario("words", `
rounds:
  - text: "`+text+`"
    calls: [{tool: ExecCommand, arguments: {cmd: "echo '`+text+`'"}}]
  - text: "`+text+`"
`)
	stream := lines(h.post(`{"model":"` + ref + `","input":"` + text + `","stream":true,` +
		`"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":"required",` +
		`"holon":{"turn_id":"turn_words"}}`).body)
	if n := checkStream(t, stream, text); n < 10 {
		t.Errorf("the stream has %d events:\n%s", n, stream)
	}
	logged, err := os.ReadFile(h.file("turn_words", turns.EventsFile))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := checkStream(t, logged, text), bytes.Count(stream, []byte("\n")); got != want {
		t.Errorf("%s has %d events, want %d", turns.EventsFile, got, want)
	}
	if rec := h.record("turn_words"); rec.Status != responses.StatusCompleted {
		t.Errorf("%s has the status %q, want %q", turns.RecordFile, rec.Status, responses.StatusCompleted)
	}
	facts, err := os.ReadFile(h.file("turn_words", turns.RuntimeFile))
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(facts) {
		var ev turns.RuntimeEvent
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		if !slices.Contains(turns.Constants["type"], ev.Type) {
			t.Errorf("%s has the type %q, which is none of turns.Constants", turns.RuntimeFile, ev.Type)
		}
	}
	id := h.record("turn_words").ResponseID
	h.stop()
	again := startIn(t, h.dir, known)
	if got := again.do("GET", "/v1/responses/"+id, "").response(t); got.ID != id {
		t.Errorf("after a restart the response has the id %q, want %q", got.ID, id)
	}
	next := again.post(`{"model":"` + ref + `","input":"on","previous_response_id":"` + id + `"}`).response(t)
	if next.Status != responses.StatusCompleted {
		t.Errorf("the next turn has the status %q, want %q: %+v", next.Status, responses.StatusCompleted, next.Error)
	}
}

// checkStream checks a stream of events, one a line, for its form and for texts
// that have a word of the hidden text. It returns the number of events.
func checkStream(t *testing.T, stream []byte, hidden string) (events int) {
	t.Helper()
	var c conform.Checker
	for line := range bytes.Lines(stream) {
		events++
		if err := c.Event(bytes.TrimSpace(line)); err != nil {
			t.Errorf("event %d: %v", events, err)
		}
		var ev struct {
			Delta, Text, Arguments string
			Response               *struct {
				Choice string `json:"tool_choice"`
				Tools  []struct{ Type string }
			}
		}
		if err := json.Unmarshal(line, &ev); err != nil {
			t.Fatal(err)
		}
		if r := ev.Response; r != nil {
			if len(r.Tools) != 1 || r.Tools[0].Type != "function" {
				t.Errorf("event %d has the tools %v, want one of type function", events, r.Tools)
			}
			if r.Choice != "required" {
				t.Errorf("event %d has the tool_choice %q, want required", events, r.Choice)
			}
		}
		for _, word := range strings.Split(hidden, " , ") {
			if said := ev.Delta + ev.Text + ev.Arguments; word != "" && strings.Contains(said, word) {
				t.Errorf("event %d says %q", events, word)
			}
		}
	}
	if err := c.End(); err != nil {
		t.Error(err)
	}
	return events
}
