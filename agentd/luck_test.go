package agentd_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

// A turn outlives more failures than there are quick retries, and says that it waits.
func TestATurnWaitsForItsModel(t *testing.T) {
	t.Parallel()
	busy := fails(503, `{"error":{"message":"busy"}}`)
	base, asked := provider(t, busy, busy, busy, chatAnswer(chatText, chatEnd))
	h := assembled(t, []string{"LAB_BASE_URL=" + base + "/v1"}, func(c *config.Config) {
		c.Models.Default, c.Models.RetryFor = "lab/m", 100*time.Millisecond // which cuts the wait of two seconds
	})
	resp := h.post(`{"input":"hi","holon":{"turn_id":"turn_1"}}`).response(t)
	expect.Equal(t, "answer", resp.OutputText(), "Done.")
	expect.Equal(t, "requests", asked.Load(), 4)
	tried := h.record("turn_1").ProviderAttempts.Attempts
	expect.Equal(t, "attempts", len(tried), 4)
	expect.Equal(t, "outcome before the wait", tried[2].Outcome, turns.OutcomeExhausted)
	expect.Equal(t, "wait", tried[2].BackoffMS > 0, true)
	expect.Equal(t, "number of the attempt after it", tried[3].Attempt, 1)
	expect.Equal(t, "round of the attempt after it", tried[3].Round, 1)
	expect.Equal(t, "status", resp.Status, responses.StatusCompleted)
}

// breaksOff sends the beginning of an answer and hangs up.
func breaksOff(list ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(list...)) // a client that has enough hangs up
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
}

// bodies keeps the bodies of requests, in order.
type bodies struct {
	mu   sync.Mutex
	list []string
}

func (b *bodies) of(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		data, _ := io.ReadAll(r.Body) // what is missing of it is missing in the comparison
		b.mu.Lock()
		b.list = append(b.list, string(data))
		b.mu.Unlock()
		next(w, r)
	}
}

// An answer that breaks off is made anew, with every protocol: its stream is legal, the request is the same, and
// neither a later turn of the conversation nor a reference brings back what was cut off, also after a restart.
func TestAnAnswerThatBreaksOffIsMadeAnew(t *testing.T) {
	t.Parallel()
	for contract, c := range map[string]struct {
		begin []string
		whole http.HandlerFunc
	}{
		"openai_chat_completions": {[]string{`{"choices":[{"index":0,"delta":{"content":"Half of"}}]}`},
			chatAnswer(chatText, chatEnd)},
		"responses": {[]string{`{"type":"response.output_item.added","output_index":0,"item":{"type":"message",` +
			`"role":"assistant","phase":"final_answer"}}`,
			`{"type":"response.output_text.delta","output_index":0,"delta":"Half of"}`}, streamed(wholeText)},
		"anthropic_messages": {[]string{`{"type":"message_start","message":{"id":"msg_1"}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":"Half of"}}`},
			answers("text/event-stream", anthropicRound(1, nil, recordedUsage{input: 3}))},
	} {
		t.Run(contract, func(t *testing.T) {
			t.Parallel()
			sent := &bodies{}
			first := sent.of(breaksOff(c.begin...))
			base, _ := provider(t, first, sent.of(c.whole))
			dir := shortDir(t)
			env := []string{"LAB_BASE_URL=" + base}
			configure := func(cfg *config.Config) {
				cfg.Models.Default, cfg.Models.Providers = "lab/m", "lab="+contract
			}
			h := assembledIn(t, dir, env, configure)
			wire := h.post(`{"input":"go","stream":true,"holon":{"turn_id":"turn_1"}}`)
			expect.Equal(t, "deltas of the part", strings.Contains(string(wire.body), "Half of"), true)
			resp := h.fetch(h.record("turn_1").ResponseID)
			expect.Equal(t, "status", resp.Status, responses.StatusCompleted)
			answer := resp.Output[len(resp.Output)-1]
			cut := resp.Output[0].(*responses.Message)
			expect.Equal(t, "what was cut off", cut.Text(), "Half of")
			expect.Equal(t, "how it is closed", cut.Status, responses.ItemCompleted)
			expect.Equal(t, "its phase", cut.Phase, responses.PhaseCommentary)
			expect.Equal(t, "the answer has none of it", strings.Contains(resp.OutputText(), "Half of"), false)
			expect.Equal(t, "both requests are the same", sent.list[0], sent.list[1])
			facts := h.factsOf("turn_1", turns.ModelFailed)
			expect.Equal(t, "the fact names it", strings.Contains(string(facts[0].Payload),
				fmt.Sprintf(`"discarded_item_ids":[%q]`, cut.ID)), true)

			h.post(`{"input":"more","previous_response_id":"` + resp.ID + `"}`).response(t)
			reference := fmt.Sprintf(`{"input":[{"role":"user","content":"go"},{"type":"item_reference","id":%q},`+
				`{"type":"item_reference","id":%q},{"role":"user","content":"more"}]}`, cut.ID, answer.ItemID())
			h.post(reference).response(t)
			expect.NoError(t, h.stop())
			h = assembledIn(t, dir, env, configure)
			h.post(`{"input":"more","previous_response_id":"` + resp.ID + `"}`).response(t)
			h.post(reference).response(t)
			expect.Equal(t, "requests", len(sent.list), 6)
			expect.Equal(t, "a request has what was cut off", slices.ContainsFunc(sent.list, func(body string) bool {
				return strings.Contains(body, "Half of")
			}), false)
		})
	}
}
