package agentd_test

import (
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
