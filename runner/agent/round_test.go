package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/state/ledger"
	"holon/test/expect"
)

// The transcript tells of each round what the model said, which calls it made with what result, and what it took. A
// round that only calls tools is one too, and has its event.
func TestTranscriptOfRounds(t *testing.T) {
	t.Parallel()
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
	var said []record.TranscriptEntry
	err := l.store.View(t.Context(), func(v ledger.View) (err error) {
		said, err = record.Transcript(v, "main", 100)
		return err
	})
	expect.NoError(t, err)
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
		expect.NoError(t, json.Unmarshal(e.Data, &data))
		if e.Kind == record.EntryTools {
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
	expect.Equal(t, "events of rounds", len(l.ofType(record.AssistantRound)), 3)
}

// ofType are the recorded events of a type.
func (l *lab) ofType(name string) (list []ledger.Event) {
	l.t.Helper()
	for _, e := range l.recorded() {
		if record.Of(e).Name == name {
			list = append(list, e)
		}
	}
	return list
}

// failed plays a scenario whose turn fails, and returns the event that says so.
func failed(t *testing.T, scenario string) (l *lab, end ledger.Event) {
	t.Helper()
	l = newLab(t, scenario)
	l.start()
	t.Cleanup(l.end)
	l.prompt("work", "", "")
	l.until("the failure to be recorded", func(v ledger.View) (bool, error) {
		page, err := v.Events("main", ledger.EventQuery{Limit: 1000})
		for _, e := range page.Events {
			if e.Class == turns.TurnFailed {
				end = e
			}
			if record.Of(e).Name == record.RuntimeError && end.ID != "" {
				return true, nil
			}
		}
		return false, err
	})
	return l, end
}

// A round whose request failed after it had said something is in the transcript with what is known of the request.
func TestRoundOfAFailedRequest(t *testing.T) {
	t.Parallel()
	l, _ := failed(t, `
rounds:
  - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]}
  - {text: "partly", error: {status: 429, message: slow down}}
`)
	list := l.rounds()
	var got struct {
		Text   string
		Model  string `json:"model_ref"`
		Tokens struct {
			Input     int `json:"input_tokens"`
			Estimated bool
		} `json:"token_usage"`
	}
	last := list[len(list)-1]
	expect.NoError(t, json.Unmarshal(last.Data, &got))
	if last.Round != 2 || got.Text != "partly" || !strings.HasPrefix(got.Model, "scripted/") || got.Tokens.Input == 0 ||
		!got.Tokens.Estimated {
		t.Errorf("the round is %s, want the second with its text, model and tokens", last.Data)
	}
}

// rounds are those of the transcript.
func (l *lab) rounds() (list []record.TranscriptEntry) {
	l.t.Helper()
	err := l.store.View(l.t.Context(), func(v ledger.View) (err error) {
		list, err = record.Transcript(v, "main", 100)
		return err
	})
	expect.NoError(l.t, err)
	return slices.DeleteFunc(list, func(e record.TranscriptEntry) bool { return e.Kind != record.EntryRound })
}

// A turn counts as many rounds as its transcript has, also when one fails before it has said anything.
func TestRoundsOfAFailedTurn(t *testing.T) {
	t.Parallel()
	l, end := failed(t, `
rounds:
  - {text: "On it.", calls: [{tool: ExecCommand, arguments: {cmd: "true"}}]}
  - {error: {status: 400, message: no}}
`)
	var ended struct {
		Rounds int `json:"model_rounds"`
	}
	expect.NoError(t, json.Unmarshal(end.Data, &ended))
	expect.Equal(t, "rounds of the transcript", len(l.rounds()), 2)
	expect.Equal(t, "rounds of the turn", ended.Rounds, 2)
}

// The event of a failure tells of the attempts that came before it, in order.
func TestTimelineOfFailure(t *testing.T) {
	t.Parallel()
	l, _ := failed(t, `rounds: [{error: {status: 503, message: "out of order"}}]`)
	var told struct {
		Code     string
		Timeline turns.ProviderTimeline `json:"provider_attempt_timeline"`
	}
	expect.NoError(t, json.Unmarshal(l.ofType(record.RuntimeError)[0].Data, &told))
	tried := told.Timeline.Attempts
	if len(tried) != 3 || told.Code == "" {
		t.Fatalf("%s after %d attempts, want a code and 3", told.Code, len(tried))
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
