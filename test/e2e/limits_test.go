package e2e

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner/oneshot"
	"holon/state"
	"holon/test/expect"
)

// Each limit of a run (docs/reference/run.md) ends its turn in the way that the page says,
// with the work and the answer so far among the results.
func TestLimits(t *testing.T) {
	key := "sk-limits-0123456789abcdef"
	provider := restless(t, key)
	for _, tc := range []struct {
		name, model string
		args        []string

		code   int
		reason string // of the turn; "": it is cancelled
		error  string
		param  string
		limit  func(state.Limits) bool // what the manifest says of it
	}{
		{"wall time", "waiting", []string{"--timeout", "4s"}, 124, responses.ReasonTimeout, responses.ReasonTimeout,
			"--timeout",
			func(l state.Limits) bool { return l.TimeoutMS == 4000 }},
		{"wall time of an answer", "telling", []string{"--timeout", "4s"}, 124, responses.ReasonTimeout,
			responses.ReasonTimeout, "--timeout",
			func(l state.Limits) bool { return l.TimeoutMS == 4000 }},
		{"output of an answer", "telling", []string{"--max-output-bytes", "20k"}, 1, responses.ReasonMaxOutputBytes,
			responses.ReasonMaxOutputBytes, "--max-output-bytes",
			func(l state.Limits) bool { return l.MaxOutput == 20<<10 }},
		{"rounds", "working", []string{"--max-rounds", "2"}, 1, responses.ReasonMaxRounds, responses.ReasonMaxRounds,
			"--max-rounds",
			func(l state.Limits) bool { return l.MaxRounds == 2 }},
		{"tool calls", "working", []string{"--max-tool-calls", "2"}, 1, responses.ReasonMaxToolCalls,
			responses.ReasonMaxToolCalls, "--max-tool-calls",
			func(l state.Limits) bool { return l.MaxToolCalls == 2 }},
		{"output between rounds", "working", []string{"--max-output-bytes", "500k"}, 1, responses.ReasonMaxOutputBytes,
			responses.ReasonMaxOutputBytes, "--max-output-bytes",
			func(l state.Limits) bool { return l.MaxOutput == 500<<10 }},
		{"output of a command", "waiting", []string{"--max-output-bytes", "500k"}, 1, responses.ReasonMaxOutputBytes,
			responses.ReasonMaxOutputBytes, "--max-output-bytes",
			func(l state.Limits) bool { return l.MaxOutput == 500<<10 }},
		{"disk", "waiting", []string{"--disk", "20m"}, 1, "", string("disk_quota"), "--disk",
			func(l state.Limits) bool { return l.DiskBytes == 20<<20 }},
		{"disk without a name", "unlinked", []string{"--disk", "20m"}, 1, "", "disk_quota", "--disk",
			func(l state.Limits) bool { return l.DiskBytes == 20<<20 }},
		{"disk of empty files", "inodes", []string{"--disk", "20m"}, 1, "", "disk_quota", "--disk",
			func(l state.Limits) bool { return l.DiskBytes == 20<<20 }},
		{"requests", "openai/m", []string{"--max-requests", "2"}, 1, responses.ReasonBudget, responses.ReasonBudget,
			"--max-requests",
			func(l state.Limits) bool { return l.MaxRequests == 2 }},
		{"tokens", "openai/m", []string{"--max-tokens", "200"}, 1, responses.ReasonBudget, responses.ReasonBudget,
			"--max-tokens",
			func(l state.Limits) bool { return l.MaxTokens == 200 }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+provider), repository(t, "echo a > a")
			model := tc.model
			if !strings.Contains(model, "/") {
				model = scripted(t, model)
			}
			r := h.run(repo, append([]string{"run", "--model", model, "go on"}, tc.args...)...)
			if r.code != tc.code || r.manifest == nil {
				t.Fatalf("exit code %d, want %d\n%s", r.code, tc.code, r.stderr)
			}
			outcome := state.OutcomeFailure
			if tc.code == 124 {
				outcome = state.OutcomeDeadline
			}
			switch m := r.manifest; {
			case m.Status != state.StatusIncomplete:
				t.Errorf("m.Status = %q, want %q", m.Status, state.StatusIncomplete)
			case m.Outcome != outcome:
				t.Errorf("m.Outcome = %q, want %q", m.Outcome, outcome)
			case !tc.limit(m.Limits):
				t.Error("tc.limit(m.Limits) = false, want true")
			}
			switch f := r.failure(t); {
			case f.Code != tc.error:
				t.Errorf("f.Code = %q, want %q", f.Code, tc.error)
			case f.Param != tc.param:
				t.Errorf("f.Param = %q, want %q", f.Param, tc.param)
			case !strings.Contains(f.Hint, tc.param):
				t.Errorf("f.Hint = %q, want it to contain %q", f.Hint, tc.param)
			}
			if last := "holon: " + tc.param + ": "; !strings.Contains(r.stderr, last) {
				t.Errorf("stderr has no line %q:\n%s", last, r.stderr)
			}
			checkPartial(t, r, tc.reason)
			if tc.model == "telling" && !strings.HasPrefix(r.stdout, "And so on. ") {
				t.Errorf("the answer so far is not on stdout: %q", r.stdout)
			}
			h.checkTidy()
		})
	}
}

// checkPartial checks that what a run did before its limit is there and usable.
func checkPartial(t *testing.T, r result, reason string) {
	t.Helper()
	rec := checkRecord(t, r)
	if reason == "" {
		expect.Equal(t, "the record", rec.Status, responses.StatusCancelled)
	} else if rec.Status != responses.StatusIncomplete || rec.IncompleteReason == nil ||
		*rec.IncompleteReason != reason {
		t.Errorf("the record says %s, %v", rec.Status, rec.IncompleteReason)
	}
	if rec.CompletedAt.IsZero() || rec.ToolCalls.Total == 0 {
		t.Errorf("the record is %+v", rec)
	}
	if !strings.Contains(r.read(t, oneshot.DiffFile), "+kept") {
		t.Error("the work so far is not in the patch")
	}
	events := strings.Split(strings.TrimSpace(r.read(t, turns.EventsFile)), "\n")
	if !strings.Contains(events[len(events)-1], "Working.") {
		t.Errorf("what it said so far is not in the final response: %.500s", events[len(events)-1])
	}
	if summary := r.read(t, oneshot.SummaryFile); !strings.Contains(summary, "## Error") ||
		!strings.Contains(summary, "kept.txt") {
		t.Errorf("the summary says\n%s", summary)
	}
}

// restless is a provider whose model says that it works, and calls a command, in
// every round, for 3000 tokens and 50.
func restless(t *testing.T, key string) (url string) {
	t.Helper()
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer "+key {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		message := `{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":` +
			`"output_text","text":"Working.","annotations":[]}]}`
		call := fmt.Sprintf(`{"id":"fc_%[1]d","type":"function_call","status":"completed","name":"ExecCommand",`+
			`"call_id":"call_%[1]d","arguments":"{\"cmd\":\"echo kept >> kept.txt\"}"}`, calls.Add(1))
		fmt.Fprintf(w, "data: %s\n\n", `{"type":"response.completed","response":{"id":"r",`+
			`"status":"completed","output":[`+message+
			`,`+call+`],"usage":{"input_tokens":3000,"output_tokens":50,"total_tokens":3050}}}`)
	}))
	t.Cleanup(server.Close)
	return server.URL + "/v1"
}
