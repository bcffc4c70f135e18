package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/responses/agentruntime"
	"holon/responses/turns"
	"holon/runner/agent/rules"
	"holon/state/ledger"
)

// The transcript tells of each round what the model said, which calls it made with what result, and what it took. A
// round that only calls tools is one too, and has its event.
func TestTranscriptOfRounds(t *testing.T) {
	l := newLab(t, `
rounds:
  - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "echo one"}}],
     usage: {input_tokens: 100, output_tokens: 10, cached_tokens: 80}}
  - calls: [{tool: ExecCommand, arguments: {cmd: "echo two; seq 40000"}}, {tool: NoSuchTool, arguments: {a: 1}}]
  - {text: "done"}
`)
	l.start()
	defer l.end()
	l.untilStatus(l.prompt("work", "", ""), ledger.Processed)
	var said []ledger.TranscriptEntry
	var page ledger.EventPage
	err := l.store.View(t.Context(), func(v ledger.View) (err error) {
		if said, err = v.Transcript("main", 100); err == nil {
			page, err = v.Events("main", ledger.EventQuery{Limit: 1000})
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, e := range said[1:] { // the first is the message
		var data struct {
			Text, Phase, Arguments, Output, Status string
			Ref                                    string   `json:"output_ref"`
			Calls                                  []string `json:"tool_call_ids"`
			Tokens                                 struct {
				Cached int64 `json:"cached_tokens"`
			} `json:"token_usage"`
			Tried struct {
				Attempts  []json.RawMessage
				Requested string `json:"requested_model_ref"`
				Won       string `json:"winning_model_ref"`
			} `json:"provider_attempt_timeline"`
		}
		if err := json.Unmarshal(e.Data, &data); err != nil {
			t.Fatal(err)
		}
		if e.Kind == ledger.TranscriptTools {
			lines = append(lines, fmt.Sprint(e.Round, " ", data.Status, " ", data.Arguments, " ",
				strings.Contains(data.Output, "two"), " ", data.Ref != ""))
			continue
		}
		lines = append(lines, fmt.Sprintf("%d %s %q %s %d calls, %d attempts", e.Round, e.Kind, data.Text, data.Phase,
			len(data.Calls), len(data.Tried.Attempts)))
		if data.Tried.Requested == "" || data.Tried.Requested != data.Tried.Won {
			t.Errorf("round %d asked for %q, and %q answered", e.Round, data.Tried.Requested, data.Tried.Won)
		}
		if e.InputTokens == 0 || e.OutputTokens == 0 || e.Round == 1 && (e.InputTokens != 100 || data.Tokens.Cached != 80) {
			t.Errorf("round %d took %d tokens, of which %d were cached, and gave %d", e.Round, e.InputTokens,
				data.Tokens.Cached, e.OutputTokens)
		}
	}
	want := []string{
		`1 assistant_round "On it." commentary 1 calls, 1 attempts`,
		`1 success {"cmd":"echo one"} false true`,
		`2 assistant_round ""  2 calls, 1 attempts`,
		`2 success {"cmd":"echo two; seq 40000"} true true`,
		`2 error {"a":1} false false`,
		`3 assistant_round "done" final_answer 0 calls, 1 attempts`,
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the transcript is\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
	rounds := 0
	for _, e := range page.Events {
		if e.Type == rules.AssistantRound {
			rounds++
		}
	}
	if rounds != 3 {
		t.Errorf("%d events of rounds, want 3", rounds)
	}
}

// A round whose request failed after it had said something tells of the request, too.
func TestRoundOfAFailedRequest(t *testing.T) {
	l := newLab(t, `
rounds:
  - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]}
  - {text: "partly", error: {status: 429, message: slow down}}
`)
	l.start()
	defer l.end()
	l.prompt("work", "", "")
	var said, failed ledger.Event
	l.until("the turn to fail", func(v ledger.View) (bool, error) {
		page, err := v.Events("main", ledger.EventQuery{Limit: 1000})
		for _, e := range page.Events {
			switch {
			case e.Type == rules.AssistantRound:
				said = e
			case e.Class == turns.ModelFailed:
				failed = e
			case e.Class == turns.TurnFailed:
				return true, nil
			}
		}
		return false, err
	})
	var got struct {
		Round   int
		Preview string `json:"text_preview"`
		Model   string `json:"model_ref"`
		Tokens  struct {
			Input     int `json:"input_tokens"`
			Estimated bool
		} `json:"token_usage"`
	}
	if err := json.Unmarshal(said.Data, &got); err != nil {
		t.Fatal(err)
	}
	if got.Round != 2 || got.Preview != "partly" || !strings.HasPrefix(got.Model, "scripted/") || got.Tokens.Input == 0 ||
		!got.Tokens.Estimated {
		t.Errorf("the round is %s, want the second with its text, model and tokens", said.Data)
	}
	request := said.IDs[agentruntime.ModelRequest]
	if request == "" || request != failed.IDs[agentruntime.ModelRequest] || said.Cause != failed.ID {
		t.Errorf("the round is of the request %q by %s, want %q by %s", request, said.Cause,
			failed.IDs[agentruntime.ModelRequest], failed.ID)
	}
}

// A turn counts as many rounds as there are events of rounds, also when one fails before it has said anything.
func TestRoundsOfAFailedTurn(t *testing.T) {
	l := newLab(t, `
rounds:
  - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]}
  - {error: {status: 400, message: no}}
`)
	l.start()
	defer l.end()
	l.prompt("work", "", "")
	rounds := 0
	var ended struct {
		Rounds int `json:"model_rounds"`
	}
	l.until("the turn to fail", func(v ledger.View) (bool, error) {
		rounds = 0
		page, err := v.Events("main", ledger.EventQuery{Limit: 1000})
		for _, e := range page.Events {
			switch {
			case e.Type == rules.AssistantRound:
				rounds++
			case e.Class == turns.TurnFailed:
				return true, json.Unmarshal(e.Data, &ended)
			}
		}
		return false, err
	})
	if rounds != 2 || ended.Rounds != rounds {
		t.Errorf("%d events of rounds and %d rounds of the turn, want 2", rounds, ended.Rounds)
	}
}

// The event of a failure tells of the attempts that came before it, in order.
func TestTimelineOfFailure(t *testing.T) {
	l := newLab(t, `rounds: [{error: {status: 503, message: "out of order"}}]`)
	l.start()
	defer l.end()
	l.prompt("work", "", "")
	var failed struct {
		Code     string
		Timeline turns.ProviderTimeline `json:"provider_attempt_timeline"`
	}
	l.until("a failure to be told of", func(v ledger.View) (bool, error) {
		page, err := v.Events("main", ledger.EventQuery{Limit: 1000})
		for _, e := range page.Events {
			if e.Type == rules.RuntimeError {
				return true, json.Unmarshal(e.Data, &failed)
			}
		}
		return false, err
	})
	tried := failed.Timeline.Attempts
	if len(tried) != 3 || failed.Code == "" {
		t.Fatalf("%s after %d attempts, want a code and 3", failed.Code, len(tried))
	}
	for i, a := range tried {
		switch last := i == 2; {
		case a.Attempt != i+1, a.Round != 1, !strings.HasPrefix(a.ModelRef, "scripted/"), a.Provider != "scripted":
			t.Errorf("attempt %d is %+v", i+1, a)
		case a.HTTPStatus != 503, a.FailureKind == "", a.StartedAt.IsZero():
			t.Errorf("attempt %d does not say how it failed: %+v", i+1, a)
		case last != (a.BackoffMS == 0), last != (a.Outcome == turns.OutcomeExhausted):
			t.Errorf("attempt %d was %s, with a wait of %d ms", i+1, a.Outcome, a.BackoffMS)
		}
	}
}
