package agentd_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// A turn that fails in the middle of an answer counts what was streamed of it, and says that it is an estimate; the
// error's answer names the response, of which the output can be fetched.
func TestFailedTurnCountsWhatWasStreamed(t *testing.T) {
	t.Parallel()
	said := strings.Repeat("word ", 100)
	base, _ := provider(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, said)))
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	})
	h := assembled(t, []string{"FIRST_BASE_URL=" + base}, func(c *config.Config) {
		c.Models.Default, c.Models.Providers = "first/m", "first"
	})
	a := h.post(`{"input":"go","holon":{"turn_id":"turn_a"}}`)
	failed, id := a.failure(t), a.header.Get("X-Response-Id")
	if failed.ResponseID == "" || failed.ResponseID != id {
		t.Fatalf("the failure names the response %q and the header %q, want both the same: %s", failed.ResponseID, id, a.body)
	}
	stored := h.do("GET", "/responses/"+id, "").response(t)
	if got := stored.OutputText(); strings.TrimSpace(got) != strings.TrimSpace(said) {
		t.Errorf("the stored output is %.40q, want what was streamed", got)
	}
	if u := stored.Usage; u == nil || u.OutputTokens != 3*125 || u.InputTokens == 0 ||
		u.TotalTokens != u.InputTokens+u.OutputTokens {
		t.Errorf("usage = %+v, want three times 125 tokens of output and some of input", u)
	}
	h.estimates("turn_a", 3, 125)
}

// estimates checks that the record of a turn has so many attempts, each with an estimate of its output.
func (h *harness) estimates(turnID string, attempts, output int64) {
	h.t.Helper()
	rec := h.record(turnID)
	sum := rec.ProviderAttempts.AggregatedTokenUsage
	if sum == nil || !sum.Estimated || sum.OutputTokens != attempts*output || rec.Usage.OutputTokens != sum.OutputTokens {
		h.t.Errorf("turn.json: attempts %+v, usage %+v, want an estimate of %d times %d tokens", sum, rec.Usage, attempts,
			output)
	}
	data := h.read(turnID, turns.RuntimeFile)
	for line := range strings.Lines(string(data)) {
		ev, err := turns.DecodeRuntimeEvent([]byte(line))
		expect.NoError(h.t, err)
		var p struct {
			Attempt *turns.ProviderAttempt `json:"provider_attempt"`
		}
		expect.NoError(h.t, json.Unmarshal(ev.Payload, &p))
		if p.Attempt != nil {
			if u := p.Attempt.TokenUsage; u == nil || !u.Estimated || u.OutputTokens != output {
				h.t.Errorf("%s: usage %+v, want an estimate of %d tokens", ev.Type, u, output)
			}
		}
	}
}

// A cancelled turn counts what was streamed.
func TestCancelledTurnCountsWhatWasStreamed(t *testing.T) {
	t.Parallel()
	h := start(t)
	got := h.later(t.Context(), `{"input":"go","holon":{"turn_id":"turn_a"}}`)
	h.gate.wait(t, 1)
	h.do("POST", "/responses/"+h.record("turn_a").ResponseID+"/cancel", "")
	get(t, got)
	h.estimates("turn_a", 1, 2) // "Working."
}

// A turn that no model can be asked for names each with the reason, and asks no provider.
func TestNoModelCanBeAsked(t *testing.T) {
	t.Parallel()
	base, asked := provider(t, chatAnswer(chatText, chatEnd))
	h := assembled(t, []string{"PERPLEXITY_BASE_URL=" + base, "PERPLEXITY_API_KEY=k", "BLIND_BASE_URL=" + base},
		func(c *config.Config) {
			c.Models.Default, c.Models.Fallbacks, c.Models.Providers = "perplexity/a", "blind/b", "perplexity,blind"
		})
	h.post(`{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://a.example/x.png"}]}],` +
		`"holon":{"turn_id":"turn_a"}}`)
	list := h.factsOf("turn_a", turns.RoutingDecided, turns.RoutingSingle, turns.RoutingNone)
	if len(list) != 1 || list[0].Type != turns.RoutingNone || list[0].Status != "blocked" {
		t.Fatalf("the turn has the routes %+v", list)
	}
	for _, want := range []string{`"candidate_count":0`,
		`"ref":"perplexity/a","reason":"the model cannot be asked this: it cannot be offered tools"`,
		`"ref":"blind/b","reason":"the model cannot be asked this: it takes no content of type \"input_image\""`} {
		expect.Contains(t, "route", string(list[0].Payload), want)
	}
	expect.Equal(t, "requests", asked.Load(), 0)
}

// After a fallback the response names the model that answered, wherever it is shown, and the record the one that was
// asked for too.
func TestFallbackIsNamed(t *testing.T) {
	t.Parallel()
	first, _ := provider(t, fails(500, ``))
	second, _ := provider(t, chatAnswer(chatText, chatEnd))
	h := assembled(t, []string{"FIRST_BASE_URL=" + first, "SECOND_BASE_URL=" + second}, func(c *config.Config) {
		c.Models.Default, c.Models.Fallbacks, c.Models.Providers = "first/m", "second/n", "first,second"
	})
	resp := h.post(`{"input":"go","holon":{"turn_id":"turn_a"}}`).response(t)
	if resp.Model != "second/n" {
		t.Errorf("model = %q, want second/n", resp.Model)
	}
	if stored := h.do("GET", "/responses/"+resp.ID, "").response(t); stored.Model != "second/n" {
		t.Errorf("the stored model = %q, want second/n", stored.Model)
	}
	events := string(h.post(`{"input":"go","stream":true}`).body)
	if at := strings.Index(events, responses.EventCompleted); at < 0 ||
		!strings.Contains(events[at:], `"model":"second/n"`) || !strings.Contains(events[:at], `"model":"first/m"`) {
		t.Errorf("the stream begins with the model that was asked for and ends with the one that answered: %s", events)
	}
	rec := h.record("turn_a")
	if rec.Model != "second/n" || rec.ProviderAttempts.RequestedModelRef != "first/m" {
		t.Errorf("turn.json: model %q, requested %q, want second/n and first/m", rec.Model,
			rec.ProviderAttempts.RequestedModelRef)
	}
	for _, p := range h.payloads("turn_a", turns.RoutingSingle) {
		if chain := fmt.Sprint(p["fallback_chain"]); chain != "[second/n]" {
			t.Errorf("the turn has the fallbacks %s, want [second/n]", chain)
		}
	}
	var selectors []any
	for _, p := range h.payloads("turn_a", turns.ModelRequested) {
		selectors = append(selectors, p["provider_selector"])
	}
	if len(selectors) < 2 || selectors[0] != "first/m" || selectors[len(selectors)-1] != "second/n" {
		t.Errorf("requests are chosen by %v, want first/m and then second/n", selectors)
	}
	told := h.factsOf("turn_a", turns.ModelFailed, turns.FallbackApplied)
	if n := len(told); n < 2 || told[n-1].Correlation.CausationID != told[n-2].EventID {
		t.Errorf("the fallback is caused by another event than the failure before it: %+v", told)
	}
}

// The facts of a round that its provider did not count say that its usage is an estimate.
func TestUncountedRoundIsAnEstimate(t *testing.T) {
	t.Parallel()
	base, _ := provider(t, chatAnswer(`{"choices":[{"index":0,"delta":{"content":"Hi."}}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`))
	h := assembled(t, []string{"FIRST_BASE_URL=" + base}, func(c *config.Config) {
		c.Models.Default, c.Models.Providers = "first/m", "first"
	})
	h.post(`{"input":"go","holon":{"turn_id":"turn_a"}}`)
	for _, class := range []string{turns.ModelCompleted, turns.CostRecorded, turns.TurnCompleted} {
		for _, p := range h.payloads("turn_a", class) {
			if u, _ := p["usage"].(map[string]any); u["estimated"] != true || u["output_tokens"] == 0.0 {
				t.Errorf("%s has the usage %v, want an estimate", class, u)
			}
		}
	}
}

// max_output_tokens is a limit of the response: of all rounds together, and for a model that knows of no limit too.
func TestOutputLimitOfTokens(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("word ", 500)
	endless, _ := provider(t, chatAnswer(fmt.Sprintf(`{"choices":[{"index":0,"delta":{"content":%q}}]}`, long), chatEnd))
	h := assembled(t, []string{"FIRST_BASE_URL=" + endless}, func(c *config.Config) {
		c.Models.Default, c.Models.Providers = "first/m", "first"
	})
	script := h.scenario("long", `rounds: [{text: "`+strings.Repeat("word ", 16)+
		`", calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]}, {text: "`+long+`"}]`)
	counted := h.scenario("counted", `rounds: [{text: `+strings.Repeat("x", 100)+`, usage: {output_tokens: 200}}]`)
	for _, tt := range []struct {
		name, model string
		text        int // bytes, 0 for any
		output      int64
	}{
		{"a provider that ignores it", "first/m", 50 * len("word "), 50},
		{"scripted, two rounds", script, 0, 50},
		{"scripted, its own count", counted, 25, 50},
	} {
		a := h.post(fmt.Sprintf(`{"model":%q,"input":"go","max_output_tokens":50}`, tt.model))
		resp := a.response(t)
		if resp.Status != responses.StatusIncomplete || resp.IncompleteDetails.Reason != responses.ReasonMaxOutputTokens {
			t.Errorf("%s: %s %+v, want incomplete for max_output_tokens", tt.name, resp.Status, resp.IncompleteDetails)
		}
		if n := len(resp.OutputText()); tt.text > 0 && n != tt.text {
			t.Errorf("%s: %d bytes of text, want %d", tt.name, n, tt.text)
		}
		if resp.Usage.OutputTokens != tt.output {
			t.Errorf("%s: usage %+v, want %d tokens of output", tt.name, resp.Usage, tt.output)
		}
	}
}

// A request that is cancelled before anything of its answer arrives took nothing, as the gateway counts.
func TestUnansweredRequestCountsNothing(t *testing.T) {
	t.Parallel()
	asked := make(chan struct{})
	base, _ := provider(t, func(_ http.ResponseWriter, r *http.Request) {
		close(asked)
		<-r.Context().Done()
	})
	h := assembled(t, []string{"FIRST_BASE_URL=" + base}, func(c *config.Config) {
		c.Models.Default, c.Models.Providers = "first/m", "first"
	})
	got := h.later(t.Context(), `{"input":"go","holon":{"turn_id":"turn_a"}}`)
	<-asked
	h.do("POST", "/responses/"+h.record("turn_a").ResponseID+"/cancel", "")
	get(t, got)
	rec := h.record("turn_a")
	if u := rec.Usage; u == nil || *u != (responses.Usage{}) || rec.ProviderAttempts.AggregatedTokenUsage != nil {
		t.Errorf("the usage is %+v, of attempts %+v, want none", u, rec.ProviderAttempts.AggregatedTokenUsage)
	}
}

// A turn that ends early says what it used, as one that is completed does.
func TestEndOfATurnThatEndsEarly(t *testing.T) {
	t.Parallel()
	h := start(t)
	model := h.scenario("long", "rounds:\n  - calls: [{tool: ExecCommand, arguments: {cmd: 'true'}}]\n  - text: Done.\n")
	resp := h.post(`{"model":"` + model + `","input":"go","holon":{"turn_id":"turn_early","limits":{"max_rounds":1}}}`).
		response(t)
	var end turns.Failure
	expect.NoError(t, json.Unmarshal(h.factsOf("turn_early", turns.TurnFailed)[0].Payload, &end))
	if end.Rounds != 1 || end.ToolCalls != 1 || end.Usage == nil || end.Usage.Usage != *resp.Usage ||
		end.Usage.InputTokens == 0 {
		t.Errorf("the end is %+v with the usage %+v, that of the response %+v", end, end.Usage, resp.Usage)
	}
}
