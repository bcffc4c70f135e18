package turn

import (
	"context"
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
	"holon/test/expect"
)

// facts returns the payloads of the events of a class.
func facts[T any](t *testing.T, j *journal, class string) (list []T) {
	t.Helper()
	for _, ev := range j.events {
		if ev.Type != class {
			continue
		}
		var p T
		expect.NoError(t, json.Unmarshal(ev.Payload, &p))
		list = append(list, p)
	}
	return list
}

// big makes the box's tool print size bytes.
func (s *stage) big(size int) {
	s.box.say = func(id string) tools.Outcome {
		out := strings.Repeat(id+" ", size/(len(id)+1))
		// strings have a form
		files := []tools.Artifact{{Path: "tools/" + id + "/stdout.log"}}
		result, _ := json.Marshal(map[string]any{"stdout_preview": out, "artifacts": files})
		return tools.Outcome{Canonical: tools.Result{ToolName: "Run", Status: "success",
			SummaryText: "ran " + id, Result: result}, Rendered: out, Artifacts: files}
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
	const rounds = 40
	s := newStage(t, `{"input":"x","truncation":"disabled"}`, append(calls(rounds), answer)...)
	s.big(4000)
	s.turn.Window, s.turn.MaxRounds, s.turn.Dir = providers.Window{Context: 24_000, Output: 4_000, Firm: true}, 100,
		"/out/t"
	resp, result := s.run(t, t.Context())
	if outcome(resp) != "completed" {
		t.Fatalf("%s", outcome(resp))
	}
	checkCuts(t, facts[turns.Compaction](t, s.journal, turns.ContextCompacted), cuts(s.model.asked))
	for i, req := range s.model.asked {
		if n := model.Estimate(req); n > 20_000 {
			t.Errorf("request %d has %d tokens, want at most 20,000", i, n)
		}
	}
	last := s.model.asked[rounds].Input
	old, fresh := last[1].(*responses.ToolCall), last[len(last)-1].(*responses.ToolCall)
	for _, part := range []string{"ran call_0", "/out/t/tools/call_0/stdout.log"} {
		if !strings.Contains(old.Output, part) {
			t.Errorf("the first call is told without %s as\n%s", part, old.Output)
		}
	}
	if len(fresh.Output) < 3900 {
		t.Errorf("the last call is told as\n%s", fresh.Output)
	}
	// What is stored, and goes on, is whole.
	for i, item := range result.Conversation[1:] {
		if c, ok := item.(*responses.ToolCall); ok && len(c.Output) < 3900 {
			t.Errorf("item %d of the conversation has lost its output", i)
		}
	}

	// The next turn's view begins as this one's ended: what it left is stored.
	next := newStage(t, `{"input":"and now","truncation":"disabled"}`, answer)
	next.turn.History, next.turn.Window, next.turn.Dir = result.Conversation, s.turn.Window, "/out/u"
	next.run(t, t.Context())
	if got := next.model.asked[0].Input; !sameTold(last, got[:len(last)]) {
		t.Error("the next turn's conversation does not begin with this one's")
	}
	if again := facts[turns.Compaction](t, next.journal, turns.ContextCompacted); len(again) != 0 {
		t.Errorf("the next turn compacts what is compacted: %+v", again)
	}
}

// checkCuts compares recorded compactions with the rounds before which the prefix of the conversation changed.
func checkCuts(t *testing.T, recorded []turns.Compaction, cut []int) {
	t.Helper()
	switch {
	case len(recorded) != len(cut):
		t.Fatalf("len(recorded) = %d (%+v), want %d", len(recorded), recorded, len(cut))
	case len(cut) < 3:
		t.Fatalf("len(cut) = %d (%+v), want at least 3", len(cut), cut)
	case len(cut) > 10:
		t.Fatalf("len(cut) = %d (%+v), want at most 10", len(cut), cut)
	}
	for i, c := range recorded {
		want := turns.Compaction{Trigger: turns.TriggerBudget, Round: cut[i], Epoch: i + 1, ToolResults: c.ToolResults,
			TokensBefore: c.TokensBefore, TokensAfter: c.TokensAfter, TokensAllowed: 20_000, ContextWindow: 24_000,
			Preserved: turns.Preserved{Actions: "all", Incidents: "all", Evidence: "all"}}
		if c != want || c.ToolResults == 0 {
			t.Errorf("compaction %d: %+v, want %+v with results of tools", i, c, want)
		}
		if c.TokensBefore <= 18_000 || c.TokensAfter > 12_500 {
			t.Errorf("compaction %d: from %d tokens to %d", i, c.TokensBefore, c.TokensAfter)
		}
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

// What a provider did not count, such as a total that stands as input, says nothing about estimates.
func TestGaugeLeavesEstimatesOut(t *testing.T) {
	ends := slices.Clone(answer)
	ends[len(ends)-1].Usage = responses.Usage{InputTokens: 5000, TotalTokens: 5000, Estimated: true}
	s := newStage(t, `{"input":"x"}`, ends)
	if _, result := s.run(t, t.Context()); result.Memory.gauge != (model.Gauge{}) {
		t.Errorf("estimates are multiplied by %v after an estimated usage", result.Memory.gauge.Scale())
	}
}

// lengthCase is a conversation of some 50,000 tokens and what becomes of it.
type lengthCase struct {
	name, truncation string
	window           providers.Window
	rounds           [][]model.Event // nil ones are refused as too long
	want             string
	asked            int
	trigger          string // of the compaction; "" for none
	mute             bool   // the model gives no summary
}

func TestContextLength(t *testing.T) {
	refused := []model.Event{}
	firm := providers.Window{Context: 20_000, Output: 1_000, Firm: true}
	const failed, completed = "failed " + responses.CodeContextLength, "completed"
	for _, tt := range []lengthCase{
		{"disabled and surely too long", "disabled", firm, [][]model.Event{answer}, failed, 0, "", false},
		{"disabled and perhaps too long", "disabled", providers.Window{Context: 20_000, Output: 1_000},
			[][]model.Event{answer}, completed, 1, "", false},
		{"disabled and refused", "disabled", providers.Window{}, [][]model.Event{refused}, failed, 1, "", false},
		{"auto", "auto", firm, [][]model.Event{answer}, completed, 1, turns.TriggerBudget, false},
		{"auto and refused", "auto", providers.Window{}, [][]model.Event{refused, answer}, completed, 2,
			turns.TriggerRemote, false},
		{"auto and refused twice", "auto", providers.Window{}, [][]model.Event{refused, refused}, failed, 2,
			turns.TriggerRemote, false},
		{"auto, and no summary comes", "auto", providers.Window{}, [][]model.Event{refused}, failed, 1, "", true},
	} {
		t.Run(tt.name, tt.check)
	}
}

func (tt lengthCase) check(t *testing.T) {
	var history []responses.Item
	for n := range 20 {
		history = append(history, &responses.Message{ID: fmt.Sprint("msg_", n), Role: responses.RoleAssistant,
			Content: []responses.Part{responses.OutputText(strings.Repeat("word ", 2000))}})
	}
	s := newStage(t, `{"input":"x","truncation":"`+tt.truncation+`"}`, tt.rounds...)
	s.turn.History, s.turn.Window = history, tt.window
	s.model.refuse = &model.Error{Kind: model.KindContextLength, Code: responses.CodeContextLength, Message: "too long"}
	if !tt.mute {
		s.model.digest = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "It was long."), done(model.StopEnd)}
	}
	resp, result := s.run(t, t.Context())
	if outcome(resp) != tt.want || len(s.model.asked) != tt.asked {
		t.Fatalf("%s after %d requests, %v, want %s after %d", outcome(resp), len(s.model.asked), resp.Error, tt.want,
			tt.asked)
	}
	expect.Equal(t, "the response", resp.Truncation, tt.truncation)
	if e := resp.Error; e != nil && (e.Type != responses.TypeInvalidRequest || result.Failure == nil) {
		t.Errorf("the error is %+v with %+v, want an %s with a failure", e, result.Failure,
			responses.TypeInvalidRequest)
	}
	if len(result.Conversation) < len(history)+1 {
		t.Errorf("the conversation has %d items, want more than %d", len(result.Conversation), len(history))
	}
	if n := len(facts[turns.CompactionFailure](t, s.journal, turns.CompactionFailed)); (n == 1) != tt.mute {
		t.Errorf("%d failures are recorded, no summary came: %v", n, tt.mute)
	}
	list := facts[turns.Compaction](t, s.journal, turns.ContextCompacted)
	if tt.trigger == "" {
		if len(list) != 0 {
			t.Errorf("compacted: %+v, want nothing", list)
		}
		return
	}
	tt.compacted(t, list)
	last := s.model.asked[len(s.model.asked)-1]
	if text := last.Input[0].(*responses.Message).Text(); !strings.Contains(text, "It was long.") ||
		last.Purpose != model.PurposeTurn {
		t.Errorf("the model is told, for %q\n%.300s", last.Purpose, text)
	}
	if got, want := result.Usage.OutputTokens, int64(2+2*s.model.sums); tt.want == "completed" && got != want {
		t.Errorf("%d output tokens are paid, want %d with the summary's", got, want)
	}
}

// A turn that is cancelled while its conversation is summed up asks for nothing more.
func TestCancelWhileSummedUp(t *testing.T) {
	for _, window := range []providers.Window{{Context: 20_000, Output: 1_000, Firm: true},
		{Context: 20_000, Output: 1_000}} {
		s := newStage(t, `{"input":"x","truncation":"auto"}`, answer)
		for n := range 20 {
			s.turn.History = append(s.turn.History, &responses.Message{ID: fmt.Sprint("msg_", n),
				Role:    responses.RoleAssistant,
				Content: []responses.Part{responses.OutputText(strings.Repeat("word ", 2000))}})
		}
		s.turn.Window, s.model.refuse = window, &model.Error{Kind: model.KindCancelled, Message: "cancelled"}
		ctx, cancel := context.WithCancelCause(t.Context())
		s.model.busy = func() { cancel(ErrCancelled) }
		resp, _ := s.run(t, ctx)
		if n := len(s.model.asked); resp.Status != responses.StatusCancelled || s.model.sums != 1 || n != 0 {
			t.Errorf("%+v: the turn is %s after %d summaries and %d requests, want %s after 1 and 0", window, resp.Status,
				s.model.sums, n, responses.StatusCancelled)
		}
	}
}

func (tt lengthCase) compacted(t *testing.T, list []turns.Compaction) {
	t.Helper()
	if len(list) != 1 || list[0].Trigger != tt.trigger {
		t.Fatalf("compacted: %+v, want once by %s", list, tt.trigger)
	}
	switch c := list[0]; {
	case c.SummarizedItems == 0:
		t.Fatal("compacted: c.SummarizedItems = 0, want another value")
	case c.SummaryUsage == nil:
		t.Fatal("compacted: c.SummaryUsage = nil, want a value")
	case c.TokensAfter >= c.TokensBefore:
		t.Fatalf("compacted: c.TokensAfter = %d, want less than %d", c.TokensAfter, c.TokensBefore)
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
		switch {
		case p == nil:
			t.Errorf("%d: p = nil, want a value", i)
		case p.Broken != want[i].broken:
			t.Errorf("%d: p.Broken = %q, want %q", i, p.Broken, want[i].broken)
		case p.ExpectedTokens != want[i].expected:
			t.Errorf("%d: p.ExpectedTokens = %d, want %d", i, p.ExpectedTokens, want[i].expected)
		case p.HitRatio != want[i].ratio:
			t.Errorf("%d: p.HitRatio = %v, want %v", i, p.HitRatio, want[i].ratio)
		case p.PreambleFingerprint != result.Attempts.Attempts[0].Prompt.PreambleFingerprint:
			t.Errorf("%d: p.FrameFingerprint = %q, want %q", i, p.PreambleFingerprint,
				result.Attempts.Attempts[0].Prompt.PreambleFingerprint)
		}
		seen[p.Fingerprint] = true
	}
	if len(seen) != len(want) {
		t.Errorf("%d fingerprints of %d requests", len(seen), len(want))
	}

	// The next turn knows what the provider has, and what is another frame.
	for _, tt := range []struct{ prompt, broken string }{{"", ""}, {"be brief", turns.CachePreamble}} {
		next := newStage(t, `{"input":"y"}`, usage(answer, 7000, 6000))
		next.turn.History, next.turn.Memory, next.turn.Prompt.Text = result.Conversation, result.Memory, tt.prompt
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

// Parts of a message are parts on the stream.
func TestParts(t *testing.T) {
	s := newStage(t, `{"input":"x"}`, []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "one"), ev(model.PartEnd),
		ev(model.TextDelta, "two"), done(model.StopEnd)})
	resp, _ := s.run(t, t.Context())
	m, ok := resp.Output[0].(*responses.Message)
	if !ok || len(m.Content) != 2 || m.Content[0].Text != "one" || m.Content[1].Text != "two" {
		t.Errorf("the output is %+v, want a message of two parts", resp.Output[0])
	}
}
