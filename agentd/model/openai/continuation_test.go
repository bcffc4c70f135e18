package openai_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/model/openai"
	"holon/responses"
)

// keeper is a provider that stores what it is told and what it answers.
type keeper struct {
	t      *testing.T
	next   []string // output of the next answer, in JSON
	end    string   // its status; "completed" when empty
	status int      // or the HTTP status that it fails with
	lost   bool     // it has no response any more
	stored map[string][]json.RawMessage
	last   struct {
		Previous string            `json:"previous_response_id"`
		Store    bool              `json:"store"`
		Input    []json.RawMessage `json:"input"`
	}
	whole []json.RawMessage // the conversation as it knows it, the last input included
	asked int
}

func (k *keeper) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	k.last.Previous, k.last.Store, k.last.Input = "", false, nil
	if err := json.Unmarshal(body, &k.last); err != nil {
		k.t.Error(err)
	}
	k.asked++
	if k.status != 0 || err != nil {
		http.Error(w, `{"error":{"message":"down"}}`, k.status)
		return
	}
	before, known := k.stored[k.last.Previous]
	if k.last.Previous != "" && (!known || k.lost) {
		http.Error(w, `{"error":{"message":"Previous response not found","code":"previous_response_not_found","param":"previous_response_id"}}`, http.StatusBadRequest)
		return
	}
	k.whole = append(slices.Clone(before), k.last.Input...)
	id := fmt.Sprint("resp_", k.asked)
	end := "completed"
	if k.end != "" {
		end = k.end
	}
	after := slices.Clone(k.whole)
	for _, item := range k.next {
		after = append(after, json.RawMessage(item))
	}
	k.stored[id] = after
	w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(w, "data: {\"type\":\"response.%s\",\"response\":{\"id\":%q,\"status\":%q,\"incomplete_details\":{\"reason\":\"max_output_tokens\"},\"output\":[%s]}}\n\n", end, id, end, strings.Join(k.next, ","))
}

// Items as the provider makes them, and as the turn keeps them.
const (
	wireThought = `{"type":"reasoning","summary":[],"encrypted_content":"secret"}`
	wireSaid    = `{"type":"message","role":"assistant","content":[{"type":"output_text","text":"I look."}]}`
	wireCallA   = `{"type":"function_call","call_id":"a","name":"Run","arguments":"{}"}`
	wireCallB   = `{"type":"function_call","call_id":"b","name":"Run","arguments":"{\"x\":1}"}`
)

func user(text string) responses.Item {
	return &responses.Message{Role: responses.RoleUser, Content: []responses.Part{responses.InputText(text)}}
}

// answered is what a turn keeps of an answer of the four items.
func answered() []responses.Item {
	return []responses.Item{
		&responses.Reasoning{EncryptedContent: "secret"},
		&responses.Message{Role: responses.RoleAssistant, Content: []responses.Part{responses.OutputText("I look.")}},
		&responses.ToolCall{CallID: "a", Name: "Run", Arguments: "{}", Output: "one", Round: "r"},
		&responses.ToolCall{CallID: "b", Name: "Run", Arguments: `{"x":1}`, Output: "two", Round: "r"},
	}
}

func TestContinuation(t *testing.T) {
	four := []string{wireThought, wireSaid, wireCallA, wireCallB}
	limit := 100
	for _, tt := range []struct {
		name   string
		change func(k *keeper, req *model.Request) // between the first request and the second
		mode   string
		reason string
		sent   int // items of the second
	}{
		{"only what is new", func(*keeper, *model.Request) {}, model.LoweredIncremental, "", 2},
		{"and a message", func(_ *keeper, q *model.Request) {
			q.Input = append(q.Input, user("and?"))
		}, model.LoweredIncremental, "", 3},
		{"a limit that shrinks", func(_ *keeper, q *model.Request) {
			q.MaxOutputTokens = &limit
		}, model.LoweredIncremental, "", 2},
		{"another choice", func(_ *keeper, q *model.Request) {
			q.ToolChoice = responses.ToolChoice{Mode: "none"}
		}, model.LoweredIncremental, "", 2},
		{"other tools", func(_ *keeper, q *model.Request) {
			q.Tools = append(q.Tools, model.Tool{Name: "More"})
		}, model.LoweredFull, "shape_changed", 5},
		{"other instructions", func(_ *keeper, q *model.Request) {
			q.Instructions = "x"
		}, model.LoweredFull, "shape_changed", 5},
		{"another model", func(_ *keeper, q *model.Request) {
			q.Model = "other"
		}, model.LoweredFull, "first_request", 5},
		{"no cache key", func(_ *keeper, q *model.Request) {
			q.PromptCacheKey = ""
		}, model.LoweredFull, "no_cache_scope", 5},
		{"a summary", func(_ *keeper, q *model.Request) {
			q.Purpose = model.PurposeSummary
		}, model.LoweredFull, "no_cache_scope", 5},
		{"another beginning", func(_ *keeper, q *model.Request) {
			q.Input[0] = user("stop")
		}, model.LoweredFull, "history_changed", 5},
		{"compacted away", func(_ *keeper, q *model.Request) {
			q.Input = nil
		}, model.LoweredFull, "history_changed", 0},
		{"nothing new", func(_ *keeper, q *model.Request) {
			q.Input = q.Input[:3]
		}, model.LoweredFull, "response_changed", 3},
		{"another answer", func(_ *keeper, q *model.Request) {
			q.Input[2] = user("no")
		}, model.LoweredFull, "response_changed", 5},
		{"an answer without its thought", func(_ *keeper, q *model.Request) {
			q.Input = slices.Delete(q.Input, 1, 2)
		}, model.LoweredFull, "response_changed", 4},
		{"a call under another id", func(_ *keeper, q *model.Request) {
			q.Input[3] = &responses.ToolCall{CallID: "z", Name: "Run", Arguments: "{}", Output: "one", Round: "r"}
		}, model.LoweredFull, "response_changed", 5},
		{"a call that was left out", func(_ *keeper, q *model.Request) {
			q.Input = q.Input[:4]
		}, model.LoweredFull, "response_changed", 4},
		{"another provider's call", func(_ *keeper, q *model.Request) {
			q.Input = append(q.Input, &responses.ToolCall{CallID: "c", Name: "Run", Arguments: "{}"})
		}, model.LoweredFull, "response_changed", 6},
		{"words after what it was told", func(_ *keeper, q *model.Request) {
			q.Input = append(q.Input, user("and?"),
				&responses.Message{Role: responses.RoleAssistant, Content: []responses.Part{responses.OutputText("x")}})
		}, model.LoweredFull, "response_changed", 7},
		{"lost", func(k *keeper, _ *model.Request) { k.lost = true }, model.LoweredFull, "after_error", 5},
	} {
		t.Run(tt.name, func(t *testing.T) {
			k := &keeper{t: t, next: four, stored: make(map[string][]json.RawMessage)}
			tr := serve(t, false, k.ServeHTTP, func(o *openai.Options) { o.Continue = true })
			req := model.Request{Model: "m", PromptCacheKey: "key", Tools: []model.Tool{{Name: "Run"}},
				Input: []responses.Item{user("go")}}
			first := lowered(t, tr, req)
			if first.Mode != model.LoweredFull || first.Reason != "first_request" || !k.last.Store ||
				k.last.Previous != "" {
				t.Fatalf("%+v", first)
			}
			req.Input = append(slices.Clone(req.Input), answered()...)
			tt.change(k, &req)
			got := lowered(t, tr, req)
			if got.Mode != tt.mode || got.Reason != tt.reason || got.Items != tt.sent {
				t.Errorf("%+v, want %s %q with %d items", got, tt.mode, tt.reason, tt.sent)
			}
			if (got.Mode == model.LoweredIncremental) != (k.last.Previous != "") ||
				k.last.Store != (tt.reason != "no_cache_scope") {
				t.Errorf("%+v", k.last)
			}
			// What the provider knows in the end is what a full request tells.
			full := &keeper{t: t, stored: make(map[string][]json.RawMessage)}
			lowered(t, serve(t, false, full.ServeHTTP), req)
			if got, want := compact(t, k.whole), compact(t, full.whole); got != want {
				t.Errorf("the provider knows\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// lowered asks, again where that is worth it, and returns how the last attempt
// was told.
func lowered(t *testing.T, tr model.Transport, req model.Request) (l model.Lowering) {
	t.Helper()
	req.Lowering = &l
	for range 2 {
		_, failed := ask(t.Context(), t, tr, req)
		if failed == nil {
			return l
		}
		if failed.Kind != model.KindContinuation || !failed.Retryable() || l.Mode != model.LoweredIncremental {
			t.Fatalf("%+v: %v", l, failed)
		}
	}
	t.Fatal("it failed twice")
	return l
}

func compact(t *testing.T, items []json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	for _, item := range items {
		if err := json.Compact(&b, item); err != nil {
			t.Fatal(err)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

func TestContinuationEnds(t *testing.T) {
	k := &keeper{t: t, next: []string{wireSaid}, stored: make(map[string][]json.RawMessage)}
	tr := serve(t, false, k.ServeHTTP, func(o *openai.Options) { o.Continue = true })
	req := model.Request{Model: "m", PromptCacheKey: "key", Input: []responses.Item{user("go")}}
	lowered(t, tr, req)
	said := &responses.Message{Role: responses.RoleAssistant,
		Content: []responses.Part{responses.OutputText("I look.")}}
	grow := func() { req.Input = append(req.Input, said, user("and?")) }

	grow()
	k.status = http.StatusServiceUnavailable
	if _, failed := ask(t.Context(), t, tr, req); failed == nil || failed.Kind != model.KindOverloaded {
		t.Fatal(failed)
	}
	k.status = 0
	if l := lowered(t, tr, req); l.Reason != "after_error" {
		t.Errorf("after a failure: %+v", l)
	}
	grow()
	k.end = "incomplete"
	if l := lowered(t, tr, req); l.Mode != model.LoweredIncremental {
		t.Errorf("after a full request: %+v", l)
	}
	grow()
	k.end = ""
	if l := lowered(t, tr, req); l.Reason != "missing_response_id" {
		t.Errorf("after an answer that was cut short: %+v", l)
	}
	if l := lowered(t, tr, req); l.Reason != "nothing_new" && l.Reason != "response_changed" {
		t.Errorf("the same again: %+v", l)
	}
	// Without the operator's word nothing is stored.
	off := serve(t, false, k.ServeHTTP)
	if l := lowered(t, off, req); l.Mode != model.LoweredFull || l.Reason != "" || k.last.Store {
		t.Errorf("switched off: %+v", l)
	}
	if _, err := openai.New(openai.Options{Codex: true, Continue: true}); err == nil {
		t.Error("the Codex backend is asked to store")
	}
}
