package turn

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/turns"
)

// facts returns the payloads of the events of a class.
func facts[T any](t *testing.T, j *journal, class string) (list []T) {
	t.Helper()
	for _, ev := range j.events {
		if ev.Type != class {
			continue
		}
		var p T
		if err := json.Unmarshal(ev.Payload, &p); err != nil {
			t.Fatal(err)
		}
		list = append(list, p)
	}
	return list
}

// big makes the box's tool print size bytes.
func (s *stage) big(size int) {
	s.box.say = func(id string) tools.Outcome {
		out := strings.Repeat(id+" ", size/(len(id)+1))
		// strings have a form
		result, _ := json.Marshal(map[string]any{"stdout_preview": out,
			"artifacts": []tools.Artifact{{Path: "tools/" + id + "/stdout.log"}}})
		return tools.Outcome{Canonical: tools.Result{ToolName: "Run", Status: "success",
			SummaryText: "ran " + id, Result: result}, Rendered: out}
	}
}

// calls are n rounds of a call each.
func calls(n int) (rounds [][]model.Event) {
	for i := range n {
		rounds = append(rounds, join(call(fmt.Sprintf("call_%d", i), "Run", "{}"), done(model.StopEnd)))
	}
	return rounds
}

// cuts returns the rounds whose request does not begin with the one before.
func cuts(asked []model.Request) (list []int) {
	for i := 1; i < len(asked); i++ {
		before := asked[i-1].Input
		if len(asked[i].Input) < len(before) || !slices.Equal(asked[i].Input[:len(before)], before) {
			list = append(list, i+1)
		}
	}
	return list
}

func TestOldResultsBecomeReceipts(t *testing.T) {
	const rounds = 60
	s := newStage(t, `{"input":"x","truncation":"disabled"}`, append(calls(rounds), answer)...)
	s.big(4000)
	s.turn.Window, s.turn.MaxRounds, s.turn.Dir = providers.Window{Context: 24_000, Output: 4_000, Firm: true}, 100,
		"/out/t"
	resp, result := s.run(t, t.Context())
	if outcome(resp) != "completed" {
		t.Fatalf("%s", outcome(resp))
	}
	recorded := facts[turns.Compaction](t, s.journal, turns.ContextCompacted)
	cut := cuts(s.model.asked)
	if len(recorded) != len(cut) || len(cut) < 3 || len(cut) > 10 {
		t.Errorf("%d compactions are recorded and the prefix is another in the rounds %v", len(recorded), cut)
	}
	for i, c := range recorded {
		if c.Round != cut[i] || c.Epoch != i+1 || c.Trigger != turns.TriggerBudget || c.ToolResults == 0 ||
			c.SummarizedItems != 0 ||
			c.TokensBefore <= 18_000 || c.TokensAfter > 12_500 || c.TokensAllowed != 20_000 ||
			c.ContextWindow != 24_000 {
			t.Errorf("compaction %d: %+v", i, c)
		}
	}
	for i, req := range s.model.asked {
		if n := model.Estimate(req); n > 20_000 {
			t.Errorf("request %d has %d tokens", i, n)
		}
	}
	last := s.model.asked[rounds].Input
	if old := last[1].(*responses.ToolCall); !strings.Contains(old.Output, "ran call_0") ||
		!strings.Contains(old.Output, "/out/t/tools/call_0/stdout.log") {
		t.Errorf("the first call is told as\n%s", old.Output)
	}
	if fresh := last[len(last)-1].(*responses.ToolCall); len(fresh.Output) < 3900 {
		t.Errorf("the last call is told as\n%s", fresh.Output)
	}
	// What is stored, and goes on, is whole.
	for i, item := range result.Conversation[1:] {
		if c, ok := item.(*responses.ToolCall); ok && len(c.Output) < 3900 {
			t.Errorf("item %d of the conversation has lost its output", i)
		}
	}

	// The next turn's view is derived from the whole, and begins as this one's ended.
	next := newStage(t, `{"input":"and now","truncation":"disabled"}`, answer)
	next.turn.History, next.turn.Window, next.turn.Dir = result.Conversation, s.turn.Window, "/out/u"
	next.run(t, t.Context())
	if got := next.model.asked[0].Input; !sameTold(last, got[:len(last)]) {
		t.Error("the next turn's conversation does not begin with this one's")
	}
	if again := facts[turns.Compaction](t, next.journal, turns.ContextCompacted); len(again) != 1 ||
		!again[0].Restored {
		t.Errorf("%+v", again)
	}
}

// sameTold reports whether a model is told the same, leaving out where the files
// of a turn are, which its own view alone can say.
func sameTold(a, b []responses.Item) bool {
	for i := range a {
		x, ok := a[i].(*responses.ToolCall)
		if !ok {
			if a[i] != b[i] {
				return false
			}
			continue
		}
		y, ok := b[i].(*responses.ToolCall)
		before, _, _ := strings.Cut(x.Output, "\nAll of it")
		after, _, _ := strings.Cut(y.Output, "\nAll of it")
		if !ok || before != after {
			return false
		}
	}
	return true
}

func TestGaugeFollowsTheProvider(t *testing.T) {
	rounds := calls(20)
	for i, events := range rounds { // a provider whose tokens are half as long
		events[len(events)-1].Usage = responses.Usage{InputTokens: int64(2 * (100 + 1000*i)), OutputTokens: 1,
			TotalTokens: 1}
	}
	s := newStage(t, `{"input":"x"}`, append(rounds, answer)...)
	s.big(4000)
	s.turn.Window, s.turn.MaxRounds = providers.Window{Context: 24_000, Output: 4_000}, 100
	_, result := s.run(t, t.Context())
	first := facts[turns.Compaction](t, s.journal, turns.ContextCompacted)
	if len(first) == 0 || first[0].Round > 12 {
		t.Fatalf("%+v", first)
	}
	if result.Memory.gauge == (model.Gauge{}) {
		t.Error("nothing was learned")
	}
}

func TestContextLength(t *testing.T) {
	tooLong := &model.Error{Kind: model.KindContextLength, Code: responses.CodeContextLength, Message: "too long"}
	said := func(n int) responses.Item {
		return &responses.Message{ID: fmt.Sprint("msg_", n), Role: responses.RoleAssistant,
			Content: []responses.Part{responses.OutputText(strings.Repeat("word ", 2000))}}
	}
	var history []responses.Item
	for n := range 20 { // some 50,000 tokens
		history = append(history, said(n))
	}
	summary := []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."), done(model.StopEnd)}
	refused := []model.Event{}
	const failed, summarised = "failed " + responses.CodeContextLength, "completed"
	for _, tt := range []struct {
		name, truncation string
		window           providers.Window
		rounds           [][]model.Event // nil ones are refused as too long
		want             string
		asked            int
		remote           bool // the provider said so
	}{
		{"disabled and surely too long", "disabled", providers.Window{Context: 20_000, Output: 1_000, Firm: true},
			[][]model.Event{answer}, failed, 0, false},
		{"disabled and perhaps too long", "disabled", providers.Window{Context: 20_000, Output: 1_000},
			[][]model.Event{answer}, "completed", 1, false},
		{"disabled and refused", "disabled", providers.Window{}, [][]model.Event{refused}, failed, 1, true},
		{"auto", "auto", providers.Window{Context: 20_000, Output: 1_000, Firm: true}, [][]model.Event{answer},
			summarised, 1, false},
		{"auto and refused", "auto", providers.Window{}, [][]model.Event{refused, answer}, summarised, 2, true},
		{"auto and refused twice", "auto", providers.Window{}, [][]model.Event{refused, refused}, failed, 2, true},
		{"auto, and no summary comes", "auto", providers.Window{}, [][]model.Event{refused}, failed, -1, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t, `{"input":"x","truncation":"`+tt.truncation+`"}`, tt.rounds...)
			s.turn.History, s.turn.Window = history, tt.window
			s.model.refuse, s.model.digest = tooLong, summary
			if tt.asked < 0 {
				s.model.digest = nil
			}
			resp, result := s.run(t, t.Context())
			if outcome(resp) != tt.want || tt.asked >= 0 && len(s.model.asked) != tt.asked ||
				resp.Truncation != tt.truncation {
				t.Fatalf("%s after %d requests, %v", outcome(resp), len(s.model.asked), resp.Error)
			}
			if resp.Error != nil && (resp.Error.Type != responses.TypeInvalidRequest || result.Failure == nil) {
				t.Errorf("%+v %+v", resp.Error, result.Failure)
			}
			if len(result.Conversation) < len(history)+1 {
				t.Errorf("the conversation has %d items", len(result.Conversation))
			}
			list := facts[turns.Compaction](t, s.journal, turns.ContextCompacted)
			if tt.truncation == "disabled" || tt.asked < 0 {
				if len(list) != 0 {
					t.Errorf("%+v", list)
				}
				if n := len(facts[turns.CompactionFailure](t, s.journal, turns.CompactionFailed)); tt.asked < 0 &&
					n != 1 {
					t.Errorf("%d failures are recorded", n)
				}
				return
			}
			want := turns.TriggerBudget
			if tt.remote {
				want = turns.TriggerRemote
			}
			if len(list) != 1 || list[0].Trigger != want || list[0].SummarizedItems == 0 ||
				list[0].TokensAfter >= list[0].TokensBefore || list[0].SummaryUsage == nil {
				t.Fatalf("%+v", list)
			}
			last := s.model.asked[len(s.model.asked)-1]
			if text := last.Input[0].(*responses.Message).Text(); !strings.Contains(text, "It was long.") ||
				last.Purpose != model.PurposeTurn {
				t.Errorf("the model is told\n%.300s", text)
			}
			if tt.want == summarised && result.Usage.OutputTokens != int64(2+2*s.model.sums) {
				t.Errorf("the summary is not paid for: %+v", result.Usage)
			}
		})
	}
}

// TestSummaryKeepsInstructions holds compactions to what agentd told the model in
// the midst of a conversation, which nothing says again.
func TestSummaryKeepsInstructions(t *testing.T) {
	told := &responses.Message{ID: responses.PrefixContext + "agent_1", Role: responses.RoleDeveloper,
		Content: []responses.Part{responses.InputText("be kind")}}
	long := &responses.Message{ID: "msg_1", Role: responses.RoleAssistant,
		Content: []responses.Part{responses.OutputText(strings.Repeat("word ", 20_000))}}
	s := newStage(t, `{"input":"x","truncation":"auto"}`, answer)
	s.model.digest = answer
	s.turn.History, s.turn.Window = []responses.Item{long, told, long}, providers.Window{Context: 20_000, Output: 1_000}
	s.run(t, t.Context())
	if last := s.model.asked[0].Input; last[0] != responses.Item(told) {
		t.Errorf("the model is told %+v", last[0])
	}
}

func TestPromptDiagnostics(t *testing.T) {
	usage := func(events []model.Event, in, cached int64) []model.Event {
		events = slices.Clone(events)
		events[len(events)-1].Usage = responses.Usage{InputTokens: in, OutputTokens: 1, TotalTokens: in + 1,
			InputTokenDetails: responses.InputTokenDetails{CachedTokens: cached}}
		return events
	}
	rounds := calls(5)
	s := newStage(t, `{"input":"x"}`, usage(rounds[0], 900, 0), usage(rounds[1], 2000, 0), usage(rounds[2], 3000, 1000),
		usage(rounds[3], 4000, 0), usage(rounds[4], 5000, 9000), usage(answer, 6000, 5000))
	_, result := s.run(t, t.Context())
	want := []struct {
		broken   string
		expected int64
		ratio    float64
	}{{turns.CacheFirst, 0, 0}, {turns.CacheShort, 0, 0}, {"", 2000, 0.5}, {turns.CacheMissed, 3000, 0}, {"", 4000, 1},
		{"", 5000, 1}}
	seen := make(map[string]bool)
	for i, a := range result.Attempts.Attempts {
		p := a.Prompt
		if p == nil || p.Broken != want[i].broken || p.ExpectedTokens != want[i].expected ||
			p.HitRatio != want[i].ratio || p.FrameFingerprint != result.Attempts.Attempts[0].Prompt.FrameFingerprint {
			t.Errorf("round %d: %+v, want %+v", i+1, p, want[i])
		}
		seen[p.Fingerprint] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d fingerprints of %d requests", len(seen), len(want))
	}

	// The next turn knows what the provider has, and what is another frame.
	for _, tt := range []struct{ instructions, broken string }{{"", ""}, {"be brief", turns.CacheFrame}} {
		next := newStage(t, `{"input":"y"}`, usage(answer, 7000, 6000))
		next.turn.History, next.turn.Memory, next.turn.Instructions = result.Conversation, result.Memory,
			tt.instructions
		_, after := next.run(t, t.Context())
		if p := after.Attempts.Attempts[0].Prompt; p.Broken != tt.broken || (tt.broken == "") != (p.HitRatio == 1) {
			t.Errorf("the next turn: %+v", p)
		}
	}
	other := newStage(t, `{"input":"y"}`, usage(answer, 7000, 0))
	other.turn.History, other.turn.Memory = result.Conversation[1:], result.Memory
	_, after := other.run(t, t.Context())
	if p := after.Attempts.Attempts[0].Prompt; p.Broken != turns.CacheHistory {
		t.Errorf("another conversation: %+v", p)
	}
}
