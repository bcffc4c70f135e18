package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"holon/agentd/model"
	"holon/agentd/model/scripted"
	"holon/responses"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a transport with the given scenario files.
func open(t testing.TB, files map[string]string) (*scripted.Transport, string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	tr, err := scripted.New(scripted.Options{Dirs: []string{dir}})
	expect.NoError(t, err)
	return tr, dir
}

// collect reads one answer to its end.
func collect(ctx context.Context, tr model.Transport, req model.Request) (events []model.Event, err error) {
	for ev, e := range tr.Stream(ctx, req) {
		if e != nil {
			return events, e
		}
		events = append(events, ev)
	}
	return events, nil
}

// answer is what a test looks at of an answer.
type answer struct {
	Text, Refusal, Reasoning string
	Calls                    []string // "id tool arguments"
	Stop                     model.Stop
	Usage                    responses.Usage
}

func summarise(events []model.Event) (a answer) {
	for _, ev := range events {
		switch ev.Kind {
		case model.TextDelta:
			a.Text += ev.Text
		case model.RefusalDelta:
			a.Refusal += ev.Text
		case model.SummaryDelta:
			a.Reasoning += ev.Text
		case model.CallEnd:
			a.Calls = append(a.Calls, ev.CallID+" "+ev.Name+" "+ev.Text)
		case model.Done:
			a.Stop, a.Usage = ev.Stop, ev.Usage
		}
	}
	return a
}

func user(text string) responses.Item {
	return &responses.Message{Role: responses.RoleUser, Content: []responses.Part{responses.InputText(text)}}
}

func said(text string) responses.Item {
	return &responses.Message{Role: responses.RoleAssistant, Content: []responses.Part{responses.OutputText(text)}}
}

// ran is a finished ExecCommand.
func ran(id string, exit int, output string) responses.Item {
	return tool(id, "ExecCommand", fmt.Sprintf(
		`{"tool_name":"ExecCommand","status":"success","summary_text":"","result":{"exit_status":%d},"error":null}`,
		exit),
		fmt.Sprintf("Process exited with code %d\nstdout:\n%s", exit, output))
}

func tool(id, name, result, output string) responses.Item {
	return &responses.ToolCall{CallID: id, Name: name, Result: json.RawMessage(result), Output: output,
		Status: responses.ItemCompleted}
}

const patchFailed = `{"tool_name":"ApplyPatch","status":"error","summary_text":"","result":null,` +
	`"error":{"kind":"patch_does_not_apply","message":"no","retryable":false}}`

const branching = `
name: branching
rounds:
  - id: test
    text: run it
    calls: [{tool: ExecCommand, arguments: {cmd: make test}}]
  - cases:
      - when: {tool: ExecCommand, exit_status: 0}
        text: green
      - when: {exit_status: [1, 2], contains: flaky}
        calls: [{tool: ExecCommand, arguments: {cmd: make again}}]
        goto: test
        times: 2
      - when: {exit_status: nonzero, not_contains: [panic, fatal], matches: '(?m)^FAIL \w+'}
        text: "red: {{last_output}}"
      - when: {error: timeout}
        text: slow
  - text: gave up in round {{round}} on {{last_user}}
`

func TestBranches(t *testing.T) {
	tr, _ := open(t, map[string]string{"b.yaml": branching})
	first := user("go")
	flaky := []responses.Item{first, said("run it"), ran("call_t1_r1_1", 1, "flaky"), ran("call_t1_r2_1", 0, "x"),
		said("run it"), ran("call_t1_r3_1", 1, "flaky"), ran("call_t1_r4_1", 0, "x"), ran("call_t1_r5_1", 1, "flaky"),
		ran("call_t1_r6_1", 0, "x")}
	timeout := `{"tool_name":"ExecCommand","status":"error","summary_text":"","result":null,` +
		`"error":{"kind":"timeout","message":"","retryable":true}}`
	tests := []struct {
		name  string
		input []responses.Item
		want  answer
	}{
		{"first round", []responses.Item{first},
			answer{Text: "run it", Calls: []string{`call_t1_r1_1 ExecCommand {"cmd":"make test"}`}}},
		{"status 0", []responses.Item{first, said("run it"), ran("call_t1_r1_1", 0, "fine")}, answer{Text: "green"}},
		{"a list and contains", []responses.Item{first, ran("call_t1_r1_1", 2, "flaky")},
			answer{Calls: []string{`call_t1_r2_1 ExecCommand {"cmd":"make again"}`}}},
		{"matches and a placeholder", []responses.Item{first, ran("call_t1_r1_1", 1, "FAIL x")},
			answer{Text: "red: Process exited with code 1\nstdout:\nFAIL x"}},
		{"kind of error", []responses.Item{first, tool("call_t1_r1_1", "ExecCommand", timeout, "{}")},
			answer{Text: "slow"}},
		{"goto comes back", flaky[:4], answer{Text: "run it",
			Calls: []string{`call_t1_r3_1 ExecCommand {"cmd":"make test"}`}}},
		{"goto twice", flaky[:7], answer{Text: "run it",
			Calls: []string{`call_t1_r5_1 ExecCommand {"cmd":"make test"}`}}},
		{"times is a bound", flaky, answer{Text: "gave up in round 7 on go"}},
		{"a second turn repeats the last", []responses.Item{first, said("run it"), ran("call_t1_r1_1", 0, "fine"),
			said("green"), user("once more")}, answer{Text: "run it",
			Calls: []string{`call_t2_r1_1 ExecCommand {"cmd":"make test"}`}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, err := collect(t.Context(), tr, model.Request{Model: "b", Input: tt.input})
			expect.NoError(t, err)
			got := summarise(events)
			if got.Stop != model.StopEnd || got.Usage.TotalTokens < 2 {
				t.Errorf("ends with %q and %+v", got.Stop, got.Usage)
			}
			got.Stop, got.Usage = "", responses.Usage{}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			again, err := collect(t.Context(), tr, model.Request{Model: "b", Input: tt.input})
			expect.NoError(t, err)
			if diff := cmp.Diff(events, again); diff != "" {
				t.Errorf("the same request gives other events (-first +second):\n%s", diff)
			}
		})
	}
}

func TestDiverges(t *testing.T) {
	tr, dir := open(t, map[string]string{
		"b.yaml": branching,
		"e.yaml": "after_last_turn: diverge\nrounds:\n- calls: [{tool: ExecCommand}, {tool: ApplyPatch}]\n- id: " +
			"check\n  expect: {call: 1, exit_status: 0, user: {contains: please}}\n  text: done\n",
		"p.yaml": "rounds:\n- expect: {contains: x}\n  text: y\n",
		"m.yaml": "rounds:\n- calls: [{tool: A}]\n- expect: {call: 2}\n  text: y\n",
		"s.yaml": "rounds:\n- calls: [{tool: A}]\n- expect: {status: success, tool: A}\n  text: y\n",
	})
	both := func(exit int) []responses.Item {
		return []responses.Item{user("please"), ran("call_t1_r1_1", exit, "boom"),
			tool("call_t1_r1_2", "ApplyPatch", patchFailed, "{}")}
	}
	tests := []struct {
		name, file string
		input      []responses.Item
		want       string
	}{
		{"no case", "b", []responses.Item{user("go"), ran("call_t1_r1_1", 1, "panic: FAIL x")},
			`b.yaml, turn 1, round 2: none of its cases fits; case 1: expected exit status 0 of ` +
				`ExecCommand, got 1; its output is "Process exited`},
		{"exit status", "e", both(3), `e.yaml, turn 1, round 2 (check): expected exit status 0 of ExecCommand, got 3`},
		{"user", "e", append([]responses.Item{user("now")}, both(0)[1:]...),
			`expected the user's message to contain "please", but it is "now"`},
		{"no round left", "e", append(both(0), said("done")), `round 3: the scenario has only 2 round(s) in this turn`},
		{"another history", "e", []responses.Item{user("x"), ran("call_other", 0, ""), said("y")},
			`the conversation has 0 of the 2 calls of this round and then goes on`},
		{"part of the calls", "e", append(both(0)[:2:2], said("y")), `the conversation has 1 of the 2 calls`},
		{"one turn too many", "e", append(both(0), said("done"), user("more")),
			`turn 2, round 1: the user speaks for the 2. time, but the scenario has only 1 turn(s)`},
		{"no tool yet", "p", []responses.Item{user("x")},
			`expected the result of a tool, but no tool was called before`},
		{"too few calls", "m", []responses.Item{user("x"), tool("call_t1_r1_1", "A", "", "")},
			`expected a call 2 in the round before, but it made 1`},
		{"a call that was cut short", "s", []responses.Item{user("x"), tool("call_t1_r1_1", "A", "", "Not run")},
			`expected status success of A, got none; its output is "Not run"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			events, err := collect(t.Context(), tr, model.Request{Model: tt.file, Input: tt.input})
			e, ok := errors.AsType[*model.Error](err)
			switch {
			case !ok:
				t.Fatalf("%d events and %#v", len(events), err)
			case e.Kind != model.KindScenario:
				t.Fatalf("e.Kind = %q, want %q", e.Kind, model.KindScenario)
			case e.Code != responses.CodeScenarioDiverged:
				t.Fatalf("e.Code = %q, want %q", e.Code, responses.CodeScenarioDiverged)
			}
			if !strings.Contains(e.Message, tt.want) || !strings.Contains(e.Message, dir) {
				t.Errorf("says %q\nwant %q and the file", e.Message, tt.want)
			}
			if len(e.Message) > 2000 || strings.Contains(e.Message, "\n") {
				t.Errorf("is not one bounded line: %q", e.Message)
			}
		})
	}
}

func TestActions(t *testing.T) {
	tr, _ := open(t, map[string]string{"a.yaml": `
turns:
  - rounds:
      - reasoning: think
        text: "{{last_user}} {{ .Values.x }}"
        chunk_size: 2
        calls:
          - {tool: f, arguments: {z: "{{last_user}}", a: [1, 2.5, true, null, 2024-01-02]}}
          - {tool: g, raw: '{"bad": ', id: mine}
          - {tool: h}
        usage: {input_tokens: 10, output_tokens: 5, cached_tokens: 4, reasoning_tokens: 1}
  - rounds: [{chunks: [x, yz], stop: max_tokens}]
  - rounds: [{refusal: no, stop: content_filter}]
  - rounds: [{text: partly, error: {status: 503, retry_after: 2s, attempts: 1}}]
  - rounds: [{repeat: {text: ab, count: 1000}}]
  - rounds: [{error: {kind: context_length, message: too long}}]
`})
	turn := func(n int) (input []responses.Item) {
		for range n - 1 {
			input = append(input, user("q"), said("r"))
		}
		return append(input, user("say \"<é>\""))
	}
	ask := func(n, attempt int) ([]model.Event, error) {
		return collect(t.Context(), tr, model.Request{Model: "a.yaml", Input: turn(n), Attempt: attempt})
	}
	events, err := ask(1, 1)
	expect.NoError(t, err)
	want := answer{
		Reasoning: "think", Text: "say \"<é>\" {{ .Values.x }}", Stop: model.StopEnd,
		Calls: []string{`call_t1_r1_1 f {"z":"say \"<é>\"","a":[1,2.5,true,null,"2024-01-02"]}`, `mine g {"bad": `,
			`call_t1_r1_3 h {}`},
		Usage: responses.Usage{InputTokens: 10, OutputTokens: 5, TotalTokens: 15,
			InputTokenDetails:  responses.InputTokenDetails{CachedTokens: 4},
			OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: 1}},
	}
	if diff := cmp.Diff(want, summarise(events)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, ev := range events {
		if ev.Kind == model.TextDelta && len([]rune(ev.Text)) > 2 {
			t.Errorf("delta %q exceeds chunk_size", ev.Text)
		}
	}
	checkOtherActions(t, ask)
}

// checkOtherActions checks the turns of TestActions after the first.
func checkOtherActions(t *testing.T, ask func(n, attempt int) ([]model.Event, error)) {
	t.Helper()
	events, err := ask(2, 1)
	if err != nil || len(events) != 4 {
		t.Fatalf("chunks: %d events and %v, want 4 and no error", len(events), err)
	}
	if got := []string{events[1].Text, events[2].Text, string(events[3].Stop)}; !cmp.Equal(got,
		[]string{"x", "yz", string(model.StopMaxTokens)}) {
		t.Errorf("chunks: %q, want x, yz and max_tokens", got)
	}
	for _, want := range []struct {
		name          string
		turn, attempt int
		answer        answer
	}{
		{"refusal", 3, 1, answer{Refusal: "no", Stop: model.StopContentFilter}},
		{"the second attempt", 4, 2, answer{Text: "partly", Stop: model.StopEnd}},
		{"repeat", 5, 0, answer{Text: strings.Repeat("ab", 1000), Stop: model.StopEnd}},
	} {
		events, err := ask(want.turn, want.attempt)
		got := summarise(events)
		got.Usage = responses.Usage{}
		if diff := cmp.Diff(want.answer, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", want.name, err, diff)
		}
		if want.name == "repeat" && len(events) != 1002 {
			t.Errorf("repeat: %d events, want 1002", len(events))
		}
	}
	events, err = ask(4, 1)
	expect.Equal(t, "the text before an error", summarise(events).Text, "partly")
	type failure struct {
		Kind       model.ErrorKind
		Code       string
		RetryAfter time.Duration
	}
	if e, ok := errors.AsType[*model.Error](err); !ok || (failure{e.Kind, e.Code, e.RetryAfter}) !=
		(failure{model.KindOverloaded, responses.CodeProviderUnavailable, 2 * time.Second}) {
		t.Errorf("the error after text is %#v, want overloaded with a retry after 2s", err)
	}
	_, err = ask(6, 0)
	e, ok := errors.AsType[*model.Error](err)
	if !ok {
		t.Fatalf("the error is %#v, want context_length: too long", err)
	}
	expect.Equal(t, "e.Kind", e.Kind, model.KindContextLength)
	expect.Equal(t, "e.Message", e.Message, "too long")
}

// A client's function is answered in a later request, without a new message of
// the user: the turn of the scenario goes on.
func TestClientFunction(t *testing.T) {
	tr, _ := open(t, map[string]string{"c.yaml": "rounds:\n- calls: [{tool: weather}, {tool: ExecCommand}]\n- " +
		"expect: {call: 1, tool: weather, contains: sunny}\n  text: '{{last_output}}'\n"})
	input := []responses.Item{
		user("x"),
		&responses.FunctionCall{CallID: "call_t1_r1_1", Name: "weather"},
		ran("call_t1_r1_2", 0, "ok"),
		&responses.FunctionCallOutput{CallID: "call_t1_r1_1", Output: []responses.Part{responses.InputText("sunny")}},
	}
	events, err := collect(t.Context(), tr, model.Request{Model: "c", Input: input})
	if err != nil || !strings.HasSuffix(summarise(events).Text, "stdout:\nok") {
		t.Errorf("%+v %v", events, err)
	}
}

func TestTiming(t *testing.T) {
	tr, _ := open(t, map[string]string{"t.yaml": "rounds: [{delay: 50ms, chunks: [a, b, c], gap: 10ms, repeat: " +
		"{text: x, count: 4, gap: 5ms}}]\n"})
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		if _, err := collect(t.Context(), tr, model.Request{Model: "t"}); err != nil {
			t.Fatal(err)
		}
		expect.Equal(t, "took", time.Since(start), (50+20+15)*time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 55*time.Millisecond)
		defer cancel()
		events, err := collect(ctx, tr, model.Request{Model: "t"})
		e, ok := errors.AsType[*model.Error](err)
		if !ok {
			t.Fatalf("%d events and %v", len(events), err)
		}
		expect.Equal(t, "e.Kind", e.Kind, model.KindCancelled)
		expect.Equal(t, "len(events)", len(events), 2)
	})
}

func TestReaderMayStop(t *testing.T) {
	tr, _ := open(t, map[string]string{"t.yaml": "rounds: [{repeat: {text: x, count: 1000}, error: {kind: " +
		"transport}}]\n"})
	n := 0
	for _, err := range tr.Stream(t.Context(), model.Request{Model: "t"}) {
		expect.NoError(t, err)
		if n++; n == 5 {
			break
		}
	}
	expect.Equal(t, "read", n, 5)
}

func TestSummary(t *testing.T) {
	tr, _ := open(t, map[string]string{
		"plain.yaml": "rounds: [{text: never}]",
		"own.yaml": "after_last_turn: diverge\nrounds: [{text: never}]\nsummary: {text: 'They said " +
			"{{last_user}}', usage: {input_tokens: 5, output_tokens: 7}}",
		"fails.yaml": "rounds: [{text: never}]\nsummary: {error: {status: 503}}",
	})
	ask := func(name string) (answer, error) {
		said := &responses.Message{Role: responses.RoleUser, Content: []responses.Part{responses.InputText("hello")}}
		events, err := collect(t.Context(), tr,
			model.Request{Model: name, Purpose: model.PurposeSummary, Input: []responses.Item{said}})
		return summarise(events), err
	}
	if a, err := ask("plain"); err != nil || a.Text != "Scripted summary of 5 bytes, which end with: hello" {
		t.Errorf("by default: %+v, %v", a, err)
	}
	if a, err := ask("own"); err != nil || a.Text != "They said hello" || a.Usage.OutputTokens != 7 {
		t.Errorf("as written: %+v, %v", a, err)
	}
	_, err := ask("fails")
	if e, ok := errors.AsType[*model.Error](err); !ok || e.Kind != model.KindOverloaded {
		t.Errorf("a failure: %v", err)
	}
}
