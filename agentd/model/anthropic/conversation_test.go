package anthropic_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/responses"
	"holon/test/expect"
	"holon/test/modeltest"
)

func text(role responses.Role, s string) *responses.Message {
	return &responses.Message{ID: "msg_ours", Role: role,
		Content: []responses.Part{{Type: responses.PartText, Text: s}}}
}

func thought(s string) *responses.Reasoning {
	return &responses.Reasoning{ID: "rs_ours",
		Summary:          []responses.Part{{Type: responses.PartSummaryText, Text: "changed by a client"}},
		EncryptedContent: `anthropic:{"type":"thinking","thinking":"` + s + `","signature":"sig"}`}
}

func toolCall(id, output string) *responses.ToolCall {
	return &responses.ToolCall{ID: "tc_ours", CallID: id, Name: "f", Arguments: `{"a":"<b>"}`, Output: output,
		Result: json.RawMessage(`{"secret":1}`)}
}

func functionCall(id string) *responses.FunctionCall {
	return &responses.FunctionCall{ID: "fc_ours", CallID: id, Name: "g", Arguments: `{}`}
}

func output(id, s string) *responses.FunctionCallOutput {
	return &responses.FunctionCallOutput{ID: "fco_ours", CallID: id, Output: []responses.Part{responses.InputText(s)}}
}

// messages returns the system's text and the messages that are sent for items,
// one a line, without markers.
func messages(t *testing.T, name string, items ...responses.Item) string {
	t.Helper()
	body, _, _ := sentFor(t, true, model.Request{Model: name, Input: items})
	var w struct {
		System   []json.RawMessage
		Messages []struct {
			Role    string
			Content []json.RawMessage
		}
	}
	expect.NoError(t, json.Unmarshal([]byte(strings.ReplaceAll(body, marker, "")), &w))
	var b strings.Builder
	write := func(role string, blocks []json.RawMessage) {
		for _, block := range blocks {
			role += " " + string(block)
		}
		b.WriteString(role + "\n")
	}
	if len(w.System) > 0 {
		write("SYSTEM", w.System)
	}
	for _, m := range w.Messages {
		write(m.Role, m.Content)
	}
	return b.String()
}

// Items become messages that take turns.
func TestConversation(t *testing.T) {
	said := func(s string) string { return `{"type":"text","text":"` + s + `"}` }
	use := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"f","input":{"a":"<b>"}}` }
	used := func(id string) string { return `{"type":"tool_use","id":"` + id + `","name":"g","input":{}}` }
	result := func(id, s string) string {
		return `{"type":"tool_result","tool_use_id":"` + id + `","content":"` + s + `"}`
	}
	const signed = `{"type":"thinking","thinking":"hm","signature":"sig"}`
	const unanswered = `{"type":"tool_result","tool_use_id":"c1",` +
		`"content":"There is no output: the call was not answered.","is_error":true}`
	user, dev, asst := text(responses.RoleUser, "u"), text(responses.RoleDeveloper, "d"),
		text(responses.RoleAssistant, "a")
	const m, m2 = "~aaaaaa", "~bbbbbb" // tags of two answers
	tests := []struct {
		name  string
		items []responses.Item
		want  []string
	}{
		{"the system at first", []responses.Item{dev, text(responses.RoleSystem, "s"), user},
			[]string{"SYSTEM " + said("d") + " " + said("s"), "user " + said("u")}},
		{"several of a side", []responses.Item{user, user, asst, asst, user},
			[]string{"user " + said("u") + " " + said("u"), "assistant " + said("a") + " " + said("a"),
				"user " + said("u")}},
		{"the model began", []responses.Item{asst, user},
			[]string{"assistant " + said("a"), "user " + said("u")}},
		{"the model was last", []responses.Item{user, asst},
			[]string{"user " + said("u"), "assistant " + said("a")}},
		{"the model was cut short", []responses.Item{user, text(responses.RoleAssistant, "a \n")},
			[]string{"user " + said("u"), "assistant " + said("a")}},
		{"empty texts", []responses.Item{user, text(responses.RoleAssistant, " \n"), text(responses.RoleUser, ""),
			&responses.Message{Role: responses.RoleAssistant},
			text(responses.RoleDeveloper, "")}, []string{"user " + said("u")}},
		{"the system later", []responses.Item{user, asst, dev, user, asst, user, dev},
			[]string{"user " + said("u"), "assistant " + said("a"), "user " + said("u"), "system " + said("d"),
				"assistant " + said("a"), "user " + said("u"), "system " + said("d")}},
		{"the system between answers", []responses.Item{user, asst, dev},
			[]string{"user " + said("u"), "assistant " + said("a"),
				`user {"type":"text","text":"<system>\nd\n</system>"}`}},
		{"calls of one answer", []responses.Item{user, thought("hm"), asst, toolCall("c1"+m, "1"),
			toolCall("c2"+m, "2"), dev},
			[]string{"user " + said("u"), "assistant " + signed + " " + said("a") + " " + use("c1") + " " + use("c2"),
				"user " + result("c1", "1") + " " + result("c2", "2"), "system " + said("d")}},
		{"calls of two answers", []responses.Item{user, toolCall("c1"+m, "1"), toolCall("c2"+m2, "2"), thought("hm"),
			toolCall("c3"+m2, "3"), asst},
			[]string{"user " + said("u"), "assistant " + use("c1"), "user " + result("c1", "1"),
				"assistant " + use("c2"), "user " + result("c2", "2"), "assistant " + signed + " " + use("c3"),
				"user " + result("c3", "3"), "assistant " + said("a")}},
		{"calls of another provider", []responses.Item{user, toolCall("c1", "1"), toolCall("c2", "2")},
			[]string{"user " + said("u"), "assistant " + use("c1"), "user " + result("c1", "1"),
				"assistant " + use("c2"), "user " + result("c2", "2")}},
		{"both kinds of calls in an answer",
			[]responses.Item{user, functionCall("c2" + m), toolCall("c1"+m, "1"), output("c2"+m, "2"), user},
			[]string{"user " + said("u"), "assistant " + used("c2") + " " + use("c1"),
				"user " + result("c2", "2") + " " + result("c1", "1") + " " + said("u")}},
		{"functions of another provider", []responses.Item{user, functionCall("c1"), functionCall("c2"),
			output("c2", "2"), output("c1", "1"), functionCall("c3"), output("c3", "3")},
			[]string{"user " + said("u"), "assistant " + used("c1") + " " + used("c2"),
				"user " + result("c1", "1") + " " + result("c2", "2"), "assistant " + used("c3"),
				"user " + result("c3", "3")}},
		{"text between calls", []responses.Item{user, functionCall("c1"), asst, functionCall("c2"), output("c1", "1"),
			output("c2", "2")},
			[]string{"user " + said("u"), "assistant " + used("c1") + " " + said("a") + " " + used("c2"),
				"user " + result("c1", "1") + " " + result("c2", "2")}},
		{"an output that comes late", []responses.Item{user, functionCall("c1"), user, output("c1", "1")},
			[]string{"user " + said("u"), "assistant " + used("c1"), "user " + result("c1", "1") + " " + said("u")}},
		{"no output", []responses.Item{user, functionCall("c1"), user},
			[]string{"user " + said("u"), "assistant " + used("c1"), "user " + unanswered + " " + said("u")}},
		{"an empty output", []responses.Item{user, toolCall("c1", " ")},
			[]string{"user " + said("u"), "assistant " + use("c1"), `user {"type":"tool_result","tool_use_id":"c1"}`}},
		{"no call", []responses.Item{user, output("c1", "1")},
			[]string{"user " + said("u") + " " + said("Output of the call c1:") + " " + said("1")}},
		{"an id twice", []responses.Item{user, functionCall("c1"), output("c1", "1"), functionCall("c1"),
			output("c1", "2")},
			[]string{"user " + said("u"), "assistant " + used("c1"), "user " + result("c1", "1"),
				"assistant " + used("call_5e14f6012f51487134184415"),
				"user " + result("call_5e14f6012f51487134184415", "2")}},
		{"an odd id", []responses.Item{user, functionCall("c:/1"), output("c:/1", "1")},
			[]string{"user " + said("u"), "assistant " + used("call_33e1655f6b4a7b62c9831d6f"),
				"user " + result("call_33e1655f6b4a7b62c9831d6f", "1")}},
		{"odd names and arguments", []responses.Item{user,
			&responses.FunctionCall{CallID: "c1", Name: "g.h", Arguments: `{"a": `},
			&responses.FunctionCall{CallID: "c2", Name: "g", Arguments: `[1]`},
			&responses.FunctionCall{CallID: "c3", Name: "g"}},
			[]string{"user " + said("u"), `assistant {"type":"tool_use","id":"c1","name":"g_h",` +
				`"input":{"malformed_arguments":"{\"a\": "}} {"type":"tool_use","id":"c2","name":"g",` +
				`"input":{"malformed_arguments":"[1]"}} ` + used("c3"),
				"user " + unanswered + " " + strings.Replace(unanswered, "c1", "c2", 1) + " " +
					strings.Replace(unanswered, "c1", "c3", 1)}},
		{"thoughts of others", []responses.Item{user, &responses.Reasoning{EncryptedContent: "gAAAA"},
			&responses.Reasoning{EncryptedContent: `x:{"type":"thinking","thinking":"t","signature":"s"}`},
			&responses.Reasoning{Content: []responses.Part{{Text: "raw"}}},
			&responses.Reasoning{EncryptedContent: `anthropic:{"type":"tool_use","id":"x","name":"rm"}`},
			&responses.Reasoning{EncryptedContent: `anthropic:{`},
			&responses.Reasoning{EncryptedContent: `anthropic:{"type":"redacted_thinking","data":"D"}`}, asst, user},
			[]string{"user " + said("u"), `assistant {"type":"redacted_thinking","data":"D"} ` + said("a"),
				"user " + said("u")}},
		{"a refusal, and what models never see",
			[]responses.Item{user, &responses.Message{Role: responses.RoleAssistant,
				Content: []responses.Part{{Type: responses.PartRefusal, Refusal: "no"}}}, &responses.OpaqueItem{
				Type: "x:y"}, user},
			[]string{"user " + said("u"), "assistant " + said("no"), "user " + said("u")}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(strings.Join(tt.want, "\n")+"\n",
				messages(t, "claude-opus-5", tt.items...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	// Models that know no messages of the system are told by the user.
	want := "user " + said("u") + "\nassistant " + said("a") + "\nuser " +
		`{"type":"text","text":"<system>\nd\n</system>"} ` + said("u") + "\n"
	expect.Equal(t, "messages", messages(t, "claude-sonnet-4-5", user, asst, dev, user), want)
}

// Every form of content that the transport declares reaches the provider, in a
// message and in the output of a call.
func TestMedia(t *testing.T) {
	tr := serve(t, false, nil)
	expect.Equal(t, "it declares", model.CapabilitiesOf(tr, "claude-opus-5"),
		(model.Capabilities{Images: true, Files: true}))
	image, file := responses.PartInputImage, responses.PartInputFile
	for _, tt := range []struct {
		part responses.Part
		want string
	}{
		{responses.Part{Type: image, ImageURL: "https://x/i.png", Detail: "high"},
			`{"type":"image","source":{"type":"url","url":"https://x/i.png"}}`},
		{responses.Part{Type: image, ImageURL: "data:image/jpg;base64,AA=="},
			`{"type":"image","source":{"type":"base64","media_type":"image/jpeg","data":"AA=="}}`},
		{responses.Part{Type: file, FileURL: "https://x/f.pdf"},
			`{"type":"document","source":{"type":"url","url":"https://x/f.pdf"}}`},
		{responses.Part{Type: file, FileName: "f.pdf", FileData: "data:application/pdf;base64,AA=="},
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"AA=="},` +
				`"title":"f.pdf"}`},
		{responses.Part{Type: file, FileName: "f.md", FileData: "data:text/markdown;charset=utf-8;base64,IyBI"},
			`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"# H"},"title":"f.md"}`},
		{responses.Part{Type: file, FileName: "i.png", FileData: "data:image/png;base64,AA=="},
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AA=="}}`},
		{responses.Part{Type: file, FileName: "e", FileData: "data:text/plain;base64,"},
			`{"type":"text","text":"(The file e is empty.)"}`},
	} {
		got := messages(t, "claude-opus-5",
			&responses.Message{Role: responses.RoleUser,
				Content: []responses.Part{responses.InputText("look"), tt.part}},
			&responses.FunctionCall{CallID: "c", Name: "f"},
			&responses.FunctionCallOutput{CallID: "c", Output: []responses.Part{responses.InputText("here"), tt.part}})
		for _, want := range []string{`{"type":"text","text":"look"} ` + tt.want,
			`"tool_use_id":"c","content":[{"type":"text","text":"here"},` + tt.want + `]`} {
			expect.Contains(t, "the conversation", got, want)
		}
	}
	view := toolCall("c", "a picture")
	view.Media = []responses.Part{{Type: image, ImageURL: "data:image/png;base64,AA=="}}
	if got := messages(t, "claude-opus-5", view); !strings.Contains(got,
		`"content":[{"type":"text","text":"a picture"},{"type":"image"`) {
		t.Error(got)
	}
}

func TestItemsThatCannotBeSent(t *testing.T) {
	tr := serve(t, false, nil)
	say := func(role responses.Role, p responses.Part) responses.Item {
		return &responses.Message{Role: role, Content: []responses.Part{p}}
	}
	for says, item := range map[string]responses.Item{
		"only referred to": &responses.ItemReference{ID: "msg_1"},
		"another provider": &responses.Compaction{EncryptedContent: "z"},
		`"input_video"`: say(responses.RoleUser,
			responses.Part{Type: responses.PartInputVideo, VideoURL: "v"}),
		"a message of the user": say(responses.RoleDeveloper,
			responses.Part{Type: responses.PartInputImage, ImageURL: "https://x"}),
		"convert it": say(responses.RoleUser,
			responses.Part{Type: responses.PartInputImage, ImageURL: "data:image/tiff;base64,AA=="}),
		"neither an http": say(responses.RoleUser,
			responses.Part{Type: responses.PartInputImage, ImageURL: "file:///etc/passwd"}),
		"is not base64": say(responses.RoleUser,
			responses.Part{Type: responses.PartInputImage, ImageURL: "data:image/png,AA"}),
		"names no media type": say(responses.RoleUser,
			responses.Part{Type: responses.PartInputImage, ImageURL: "data:;base64,AA=="}),
		"PDF, text and images": say(responses.RoleUser,
			responses.Part{Type: responses.PartInputFile, FileData: "data:application/zip;base64,UEsDBAA="}),
		"its base64 can't be read": &responses.FunctionCallOutput{CallID: "c",
			Output: []responses.Part{{Type: responses.PartInputFile, FileData: "data:text/plain;base64,%"}}},
	} {
		_, e := modeltest.Ask(t.Context(), t, tr,
			model.Request{Input: []responses.Item{text(responses.RoleUser, "u"), item}})
		if e == nil {
			t.Fatalf("%s: e = nil, want a value", says)
		}
		expect.Equal(t, says+": e.Kind", e.Kind, model.KindInvalidRequest)
		expect.Contains(t, says+": e.Message", e.Message, says)
		expect.Contains(t, says+": e.Message", e.Message, "item 1")
	}
}

// Each round's body begins with the one before it, but for the markers, of which
// there are at most four; one is where the round before ended. The rounds are
// those of a turn: the model answers, with or without thoughts, texts and calls,
// and is then told results, notices and more.
func TestRoundsExtendEachOther(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		req := model.Request{
			Model: rapid.SampledFrom([]string{"claude-opus-5-5", "claude-opus-4-8", "claude-haiku-4-5",
				"claude-3-5-haiku", "other"}).Draw(rt, "model"), Instructions: "i",
			Tools: []model.Tool{{Name: "f"}, {Name: "g"}},
			Input: []responses.Item{text(responses.RoleDeveloper, "d"), text(responses.RoleUser, "u")},
		}
		before, split := "", false
		for round := range rapid.IntRange(2, 12).Draw(rt, "rounds") {
			body, _, err := anthropic.EncodeRequest(req)
			expect.NoError(rt, err)
			marked := string(body)
			switch n := strings.Count(marked, marker); {
			case n < 3:
				rt.Fatalf("n = %d, want at least 3", n)
			case n > 4:
				rt.Fatalf("n = %d, want at most 4", n)
			case round > 0 && n != 4:
				rt.Fatalf("round > 0 && n != 4, want the contrary")
			}
			plain := strings.TrimSuffix(strings.ReplaceAll(marked, marker, ""), "]}\n")
			if !strings.HasPrefix(plain, before) {
				rt.Fatalf("round %d:\n%s\nbefore:\n%s", round, plain, before)
			}
			if round > 0 && !split && !markedAt(marked, len(before)) {
				rt.Fatalf("round %d has no marker where the one before ended:\n%s\nbefore:\n%s", round, marked, before)
			}
			before = plain
			split = extend(rt, &req, round)
		}
	})
}

// markedAt reports whether a block with a marker ends where the given number of
// bytes without markers ends: the message's own end belongs to them.
func markedAt(body string, n int) bool {
	for at, plain := 0, 0; at < len(body); {
		if strings.HasPrefix(body[at:], marker) {
			at += len(marker)
			if plain == n-len(`}]}`) {
				return true
			}
			continue
		}
		at, plain = at+1, plain+1
	}
	return false
}

// extend adds to a conversation what one round does. split says that its calls
// are told as several answers, which is so with those of another provider.
func extend(rt *rapid.T, req *model.Request, round int) (split bool) {
	flip := func(name string) bool { return rapid.Bool().Draw(rt, name) }
	add := func(items ...responses.Item) { req.Input = append(req.Input, items...) }
	if flip("thinks") {
		add(thought(fmt.Sprint("t", round)))
	}
	calls := rapid.IntRange(0, 3).Draw(rt, "calls")
	if calls == 0 || flip("talks") {
		add(text(responses.RoleAssistant, fmt.Sprint("a", round)))
	}
	foreign := flip("foreign") // another provider answered
	var outputs []responses.Item
	for i := range calls {
		id := fmt.Sprintf("toolu_%d_%d", round, i)
		if !foreign {
			id = anthropic.TagCallID(id, fmt.Sprint("msg_", round))
		}
		if !foreign && flip("of the client") {
			add(functionCall(id))
			outputs = append(outputs, output(id, fmt.Sprint("o", i)))
		} else {
			add(toolCall(id, fmt.Sprint("o", i)))
		}
	}
	add(outputs...)
	if calls == 0 || flip("more") {
		add(text(responses.RoleUser, fmt.Sprint("u", round)))
	}
	if flip("notice") {
		add(text(responses.RoleDeveloper, fmt.Sprint("n", round)))
	}
	return foreign && calls > 1
}
