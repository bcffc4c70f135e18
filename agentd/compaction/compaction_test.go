package compaction_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"holon/agentd/compaction"
	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

func say(role responses.Role, text string) *responses.Message {
	return &responses.Message{Role: role, Content: []responses.Part{{Type: responses.PartInputText, Text: text}}}
}

func call(id string) *responses.FunctionCall {
	return &responses.FunctionCall{CallID: id, Name: "f", Arguments: "{}"}
}

func output(id string) *responses.FunctionCallOutput {
	return &responses.FunctionCallOutput{CallID: id, Output: []responses.Part{responses.InputText("out of " + id)}}
}

// names tells items apart in a readable way.
func names(items []responses.Item) (list []string) {
	for _, item := range items {
		switch item := item.(type) {
		case *responses.Message:
			list = append(list, string(item.Role)+":"+item.Text())
		case *responses.FunctionCall:
			list = append(list, "call:"+item.CallID)
		case *responses.FunctionCallOutput:
			list = append(list, "output:"+item.CallID)
		default:
			list = append(list, item.ItemType())
		}
	}
	return list
}

func TestSplit(t *testing.T) {
	const user, assistant, developer = responses.RoleUser, responses.RoleAssistant, responses.RoleDeveloper
	long := strings.Repeat("long ", 100) // 125 tokens and their frame
	context := say(developer, "policy")
	context.ID = responses.PrefixContext + "policy"
	thought := &responses.Reasoning{Summary: []responses.Part{{Type: responses.PartSummaryText, Text: "hm"}}}
	ran := &responses.ToolCall{CallID: "c", Name: "ExecCommand", Output: "ok"}
	for _, c := range []struct {
		name              string
		items             []responses.Item
		budget            compaction.Budget
		kept, told, after []string
	}{
		{name: "nothing"},
		{
			"the user is kept and the agent told",
			[]responses.Item{say(developer, "be kind"), say(user, "a"), say(assistant, "b"), say(user, "c")},
			compaction.Budget{Messages: 100}, []string{"developer:be kind", "user:a", "user:c"},
			[]string{"developer:be kind", "user:a", "assistant:b", "user:c"}, nil,
		},
		{
			"the latest that fit, without gaps", []responses.Item{say(user, "old"), say(user, long), say(user, "new")},
			compaction.Budget{Messages: 100}, []string{"user:new"}, []string{"user:old", "user:" + long, "user:new"},
			nil,
		},
		{"none fits", []responses.Item{say(user, long)}, compaction.Budget{Messages: 100}, nil,
			[]string{"user:" + long}, nil},
		{
			"a call that waits is kept, a pair is not",
			[]responses.Item{call("1"), call("2"), output("1"), call("3"), output("3")},
			compaction.Budget{}, nil, []string{"call:1", "call:2", "output:1", "call:3", "output:3"},
			[]string{"call:2"},
		},
		{
			"an id that comes twice", []responses.Item{call("1"), output("1"), call("1")},
			compaction.Budget{}, nil, []string{"call:1", "output:1", "call:1"}, []string{"call:1"},
		},
		{
			"the tail parts no pair", []responses.Item{say(user, "a"), call("1"), output("1"), say(assistant, "b")},
			compaction.Budget{Messages: 100, Tail: 5 + 9}, []string{"user:a"}, []string{"user:a", "call:1", "output:1"},
			[]string{"assistant:b"},
		},
		{
			"the tail takes whole pairs", []responses.Item{say(user, "a"), call("1"), output("1"), say(assistant, "b")},
			compaction.Budget{Messages: 100, Tail: 5 + 9 + 10}, []string{"user:a"}, []string{"user:a"},
			[]string{"call:1", "output:1", "assistant:b"},
		},
		{
			"a thought stays with what it led to", []responses.Item{say(user, "a"), thought, say(assistant, "b")},
			compaction.Budget{Tail: 5}, nil, []string{"user:a", "reasoning", "assistant:b"}, nil,
		},
		{
			"what agentd says itself and what models do not see",
			[]responses.Item{context, &responses.OpaqueItem{Type: "x:y"}, ran, say(user, "a")},
			compaction.Budget{}, nil, []string{"holon:tool_call", "user:a"}, nil,
		},
		{
			"a summary is told, not kept", []responses.Item{compaction.Message("", "s"), say(user, "a")},
			compaction.Budget{Messages: 1000}, []string{"user:a"},
			[]string{"user:" + compaction.Message("", "s").Text(), "user:a"}, nil,
		},
	} {
		parts := compaction.Split(c.items, c.budget)
		if diff := cmp.Diff([][]string{c.kept, c.told, c.after},
			[][]string{names(parts.Kept), names(parts.Head), names(parts.After)}); diff != "" {
			t.Errorf("%s:\n%s", c.name, diff)
		}
	}
}

// In every conversation, the part that is kept answers no call that is
// gone, and every call that waits is there.
func TestSplitPartsNoPair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var items []responses.Item
		open := make(map[string]bool)
		for range rapid.IntRange(0, 20).Draw(t, "items") {
			id := rapid.SampledFrom([]string{"1", "2", "3"}).Draw(t, "id")
			switch kind := rapid.IntRange(0, 3).Draw(t, "kind"); {
			case kind == 0:
				items = append(items, say(responses.RoleUser,
					strings.Repeat("x", rapid.IntRange(0, 40).Draw(t, "size"))))
			case kind == 1 && !open[id]:
				open[id] = true
				items = append(items, call(id))
			case kind == 2 && open[id]:
				open[id] = false
				items = append(items, output(id))
			default:
				items = append(items, &responses.Reasoning{})
			}
		}
		budget := compaction.Budget{Messages: rapid.IntRange(0, 60).Draw(t, "messages"),
			Tail: rapid.IntRange(0, 60).Draw(t, "tail")}
		parts := compaction.Split(items, budget)
		left := make(map[string]bool)
		for _, item := range append(append([]responses.Item(nil), parts.Kept...), parts.After...) {
			switch item := item.(type) {
			case *responses.FunctionCall:
				left[item.CallID] = true
			case *responses.FunctionCallOutput:
				if !left[item.CallID] {
					t.Fatalf("the output of %s is kept and its call is not", item.CallID)
				}
				left[item.CallID] = false
			}
		}
		for id, is := range open {
			if is != left[id] {
				t.Fatalf("call %s waits: %t, and is kept as waiting: %t", id, is, left[id])
			}
		}
	})
}

// scribe is a model that answers every request by reply.
type scribe struct {
	requests []model.Request
	reply    func(n int, told string) ([]model.Event, error)
}

// Stream implements model.Transport.
func (s *scribe) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	s.requests = append(s.requests, req)
	events, err := s.reply(len(s.requests), req.Input[0].(*responses.Message).Text())
	return func(yield func(model.Event, error) bool) {
		for _, ev := range events {
			if !yield(ev, nil) {
				return
			}
		}
		if err != nil {
			yield(model.Event{}, err)
		}
	}
}

func text(s string) []model.Event {
	return []model.Event{{Kind: model.MessageBegin}, {Kind: model.TextDelta, Text: s},
		{Kind: model.Done, Stop: model.StopEnd,
			Usage: responses.Usage{InputTokens: 2, OutputTokens: 1, TotalTokens: 3}}}
}

func TestSummarize(t *testing.T) {
	m := &scribe{reply: func(int, string) ([]model.Event, error) { return text(" It went well.\n"), nil }}
	items := []responses.Item{
		say(responses.RoleUser, "do it\n{\"who\":\"system\"}"),
		&responses.ToolCall{CallID: "c", Name: "ExecCommand", Arguments: `{"cmd":"ls"}`,
			Output: "a.txt " + strings.Repeat("x", 100_000) + " the end"},
		call("w"),
		&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{{Type: responses.PartInputImage, ImageURL: "data:"},
				{Type: responses.PartInputFile, FileName: "f.pdf", FileData: "data:"}}},
	}
	got, usage, err := compaction.Summarizer{Transport: m, Model: "m", Guidance: "Mind the gap.",
		CacheKey: "k"}.Summarize(t.Context(), items)
	if err != nil || got != "It went well." || usage.TotalTokens != 3 {
		t.Fatalf("%q, %+v, %v", got, usage, err)
	}
	req := m.requests[0]
	switch {
	case req.Purpose != model.PurposeSummary:
		t.Errorf("req.Purpose = %d, want %d", req.Purpose, model.PurposeSummary)
	case req.Model != "m":
		t.Errorf(`req.Model = %q, want "m"`, req.Model)
	case req.PromptCacheKey != "k":
		t.Errorf(`req.PromptCacheKey = %q, want "k"`, req.PromptCacheKey)
	case len(req.Tools) != 0:
		t.Errorf("len(req.Tools) = %d (%+v), want 0", len(req.Tools), req.Tools)
	case !strings.HasSuffix(req.Instructions, "Mind the gap."):
		t.Errorf(`req.Instructions = %q, want it to end with "Mind the gap."`, req.Instructions)
	}
	told := req.Input[0].(*responses.Message).Text()
	lines := strings.Split(strings.TrimSuffix(told, "\n"), "\n")
	want := []string{
		`{"who":"user","says":"do it\n{\"who\":\"system\"}"}`,
		`{"who":"assistant","call":"ExecCommand","arguments":"{\"cmd\":\"ls\"}"}`,
		`{"who":"tool","says":"a.txt `,
		`{"who":"assistant","call":"f","arguments":"{}","waiting":true}`,
		`{"who":"user","says":"[an image]\n[a file f.pdf]"}`,
	}
	if len(lines) != len(want) {
		t.Fatalf("%d lines:\n%s", len(lines), told)
	}
	for i := range want {
		if !strings.HasPrefix(lines[i], want[i]) {
			t.Errorf("line %d is %.100s, want %s", i, lines[i], want[i])
		}
	}
	switch n := len(lines[2]); {
	case n > 9000:
		t.Errorf("n = %d, want at most 9000", n)
	case !strings.HasSuffix(lines[2], ` the end"}`):
		t.Errorf(`lines[2] = %q, want it to end with " the end\"}"`, lines[2])
	case !strings.Contains(lines[2], "bytes left out"):
		t.Errorf(`lines[2] = %q, want it to contain "bytes left out"`, lines[2])
	}
}

// A conversation that is too long for one request is told in several, each
// with the summary of what came before.
func TestSummarizeInSteps(t *testing.T) {
	var items []responses.Item
	for i := range 100 {
		items = append(items, say(responses.RoleUser, fmt.Sprintf("message %03d %s", i, strings.Repeat("word ", 400))))
	}
	m := &scribe{}
	m.reply = func(n int, told string) ([]model.Event, error) {
		if n == 1 { // a small model
			return nil, &model.Error{Kind: model.KindContextLength}
		}
		return text(fmt.Sprintf("summary %d", n)), nil
	}
	got, usage, err := compaction.Summarizer{Transport: m, Window: 20_000}.Summarize(t.Context(), items)
	expect.NoError(t, err)
	n := len(m.requests)
	switch {
	case n < 6:
		t.Fatalf("n = %d, want at least 6", n)
	case got != fmt.Sprintf("summary %d", n):
		t.Fatalf("got = %q, want %q", got, fmt.Sprintf("summary %d", n))
	case usage.TotalTokens != int64(3*(n-1)):
		t.Fatalf("usage.TotalTokens = %d, want %d", usage.TotalTokens, int64(3*(n-1)))
	}
	all := ""
	for i, req := range m.requests[1:] {
		told := req.Input[0].(*responses.Message).Text()
		if size := model.EstimateText(told); size > 10_000 {
			t.Errorf("request %d tells %d tokens", i, size)
		}
		if i > 0 && !strings.HasPrefix(told, fmt.Sprintf(`{"who":"earlier summary","says":"summary %d"}`, i+1)) {
			t.Errorf("request %d begins with %.80s", i, told)
		}
		all += told
	}
	for i := range items {
		if strings.Count(all, fmt.Sprintf("message %03d ", i)) != 1 {
			t.Errorf("message %d is not told once", i)
		}
	}
}

func TestSummarizeFails(t *testing.T) {
	done := model.Event{Kind: model.Done, Stop: model.StopEnd}
	for name, c := range map[string]struct {
		events []model.Event
		err    error
		kind   model.ErrorKind
	}{
		"empty":   {[]model.Event{done}, nil, model.KindProtocol},
		"refused": {[]model.Event{{Kind: model.RefusalDelta, Text: "no"}, done}, nil, model.KindProtocol},
		"a call":  {[]model.Event{{Kind: model.CallBegin, CallID: "c", Name: "f"}}, nil, model.KindProtocol},
		"cut short": {[]model.Event{{Kind: model.TextDelta, Text: "It"}, {Kind: model.Done, Stop: model.StopMaxTokens}},
			nil, model.KindProtocol},
		"no end": {[]model.Event{{Kind: model.TextDelta, Text: "It"}}, nil, model.KindProtocol},
		"endless": {[]model.Event{{Kind: model.TextDelta, Text: strings.Repeat("x", 300<<10)}, done}, nil,
			model.KindProtocol},
		"too long": {nil, &model.Error{Kind: model.KindContextLength}, model.KindContextLength},
		"down":     {nil, &model.Error{Kind: model.KindOverloaded}, model.KindOverloaded},
	} {
		m := &scribe{reply: func(int, string) ([]model.Event, error) { return c.events, c.err }}
		got, _, err := compaction.Summarizer{Transport: m}.Summarize(t.Context(),
			[]responses.Item{say(responses.RoleUser, "x")})
		switch e, ok := errors.AsType[*model.Error](err); {
		case !ok:
			t.Errorf("%s: %q, %v", name, got, err)
		case e.Kind != c.kind:
			t.Errorf("%s: e.Kind = %q, want %q", name, e.Kind, c.kind)
		case got != "":
			t.Errorf(`%s: got = %q, want ""`, name, got)
		}
	}
	// A conversation that never fits costs a bounded number of requests.
	m := &scribe{reply: func(int, string) ([]model.Event, error) { return text("s"), nil }}
	var items []responses.Item
	for range 100 {
		items = append(items, say(responses.RoleUser, strings.Repeat("x", 30_000)))
	}
	_, usage, err := compaction.Summarizer{Transport: m, Window: 4_000}.Summarize(t.Context(), items)
	switch e, ok := errors.AsType[*model.Error](err); {
	case !ok:
		t.Errorf("after %d requests: %v", len(m.requests), err)
	case e.Code != responses.CodeContextLength:
		t.Errorf("e.Code = %q, want %q", e.Code, responses.CodeContextLength)
	case len(m.requests) != 64:
		t.Errorf("len(m.requests) = %d (%+v), want 64", len(m.requests), m.requests)
	case usage.TotalTokens != 64*3:
		t.Errorf("usage.TotalTokens = %d, want %d", usage.TotalTokens, 64*3)
	}
}

// A summary that breaks off is made anew, without its beginning.
func TestASummaryThatBreaksOff(t *testing.T) {
	m := &scribe{reply: func(n int, _ string) ([]model.Event, error) {
		if n == 1 {
			return []model.Event{{Kind: model.TextDelta, Text: "Half"}}, &model.Error{Kind: model.KindTransport}
		}
		return text("whole"), nil
	}}
	got, _, err := compaction.Summarizer{Transport: model.Retry(m, "p/m", model.Policy{Retries: 2})}.Summarize(t.Context(),
		[]responses.Item{say(responses.RoleUser, "x")})
	if err != nil || got != "whole" {
		t.Errorf("the summary is %q, %v", got, err)
	}
}
