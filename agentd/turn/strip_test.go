package turn

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/test/expect"
)

// asked counts the pictures and files of a request, and the texts that stand for some.
func asked(input []responses.Item) (media, gone int) {
	count := func(parts []responses.Part) {
		for _, p := range parts {
			if strings.HasPrefix(p.Type, "input_") && p.Type != responses.PartInputText {
				media++
			}
			gone += strings.Count(p.Text, "refused it")
		}
	}
	for _, item := range input {
		switch item := item.(type) {
		case *responses.Message:
			count(item.Content)
		case *responses.FunctionCallOutput:
			count(item.Output)
		case *responses.ToolCall:
			count(append(slices.Clone(item.Media), responses.InputText(item.Output)))
		}
	}
	return media, gone
}

// picky is a model that refuses requests.
type picky struct {
	*play
	refuses func(input []responses.Item) *model.Error // nil for a request that it answers
	refused int
}

func (p *picky) Capabilities(string) model.Capabilities {
	return model.Capabilities{Images: true, Files: true}
}

func (p *picky) Stream(ctx context.Context, req model.Request) iter.Seq2[model.Event, error] {
	failed := p.refuses(req.Input)
	if failed == nil {
		return p.play.Stream(ctx, req)
	}
	p.refused++
	return func(yield func(model.Event, error) bool) { yield(model.Event{}, failed) }
}

// pickyStage is a turn whose tool gives a picture.
func pickyStage(t *testing.T, history []responses.Item, body string, p *picky) *stage {
	s := newStage(t, body)
	p.play = s.model
	p.rounds = [][]model.Event{join(call("call_1", "Run", "{}"), done(model.StopEnd)), answer}
	s.turn.Model.Transport, s.turn.History = model.Retry(p, "fake/m", model.Policy{}), history
	s.box.say = func(string) tools.Outcome {
		return tools.Outcome{Canonical: tools.Result{ToolName: "Run", Status: "success", Result: []byte("{}")},
			Rendered: "see", Images: []tools.Image{{MediaType: "image/png", Data: []byte("of the tool")}}}
	}
	return s
}

// Pictures and files that a provider refuses cost no turn, and are sent to it never again.
func TestRefusedContent(t *testing.T) {
	refused := &model.Error{Kind: model.KindInvalidRequest, Code: responses.CodeModelError,
		Message: "Could not process image"}
	large := &model.Error{Kind: model.KindContextLength, Status: bodyTooLarge, Message: "too large"}
	whenShown := func(failed *model.Error) func([]responses.Item) *model.Error {
		return func(input []responses.Item) *model.Error {
			if media, _ := asked(input); media > 0 {
				return failed
			}
			return nil
		}
	}
	const picture = `{"type":"input_image","image_url":"https://x.example/i.png"}`
	const given = `{"input":[{"role":"user","content":[{"type":"input_text","text":"look"},` + picture + `]}]}`
	const output = `{"input":[{"type":"function_call","call_id":"c","name":"ask","arguments":"{}"},` +
		`{"type":"function_call_output","call_id":"c","output":[` + picture + `,` +
		`{"type":"input_file","file_url":"https://x.example/f.pdf"}]}]` + clientTool + `}`
	for _, tt := range []struct {
		name        string
		body        string
		refuses     func([]responses.Item) *model.Error
		end         string
		refused     int // requests of the first turn
		notices     int
		later       int // requests of the next turn that are refused
		media, gone int // of the next turn's last request
	}{
		{"a tool's picture", `{"input":"x"}`, whenShown(refused), "completed", 1, 1, 0, 0, 1},
		{"a picture of the request too", given, whenShown(refused), "completed", 2, 2, 0, 0, 2},
		{"outputs of the client", output, whenShown(refused), "completed", 2, 2, 0, 0, 3},
		{"too large", `{"input":"x"}`, whenShown(large), "completed", 1, 1, 0, 0, 1},
		{"only the new one", given, func(input []responses.Item) *model.Error {
			if media, _ := asked(input); media > 1 {
				return refused
			}
			return nil
		}, "completed", 1, 1, 0, 1, 1},
		{"another reason", given, func(input []responses.Item) *model.Error { return refused },
			"failed " + responses.CodeModelError, 2, 1, 2, 0, 0},
		{"no such model", given, func([]responses.Item) *model.Error {
			return &model.Error{Kind: model.KindInvalidRequest, Code: responses.CodeModelNotFound, Message: "?"}
		}, "failed " + responses.CodeModelNotFound, 1, 0, 1, 0, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := &picky{refuses: tt.refuses}
			s := pickyStage(t, nil, tt.body, p)
			resp, result := s.run(t, t.Context())
			expect.Equal(t, "end", outcome(resp), tt.end)
			expect.Equal(t, "refused requests", p.refused, tt.refused)
			expect.Equal(t, "notices", len(warnings(s, "content_refused")), tt.notices)

			p = &picky{refuses: tt.refuses}
			next := pickyStage(t, result.Conversation, `{"input":"and now"}`, p)
			p.rounds = [][]model.Event{answer}
			next.run(t, t.Context())
			expect.Equal(t, "refused requests of the next turn", p.refused, tt.later)
			if len(p.asked) > 0 {
				media, gone := asked(p.asked[len(p.asked)-1].Input)
				expect.Equal(t, "pictures and files", media, tt.media)
				expect.Equal(t, "texts instead", gone, tt.gone)
			}
		})
	}
}

// A conversation whose pictures were refused before goes on.
func TestRefusedBefore(t *testing.T) {
	url := "https://x.example/i.png"
	history := []responses.Item{&responses.Message{ID: "msg_1", Role: responses.RoleUser,
		Content: []responses.Part{{Type: responses.PartInputImage, ImageURL: url}}}}
	p := &picky{refuses: func(input []responses.Item) *model.Error {
		if media, _ := asked(input); media > 0 {
			return &model.Error{Kind: model.KindInvalidRequest, Message: "bad picture"}
		}
		return nil
	}}
	s := pickyStage(t, history, `{"input":"x"}`, p)
	p.rounds = [][]model.Event{answer}
	resp, _ := s.run(t, t.Context())
	expect.Equal(t, "end", outcome(resp), "completed")
	expect.Equal(t, "refused requests", p.refused, 1)
	expect.Equal(t, "the history's own", history[0].(*responses.Message).Content[0].ImageURL, url)
}

// warnings returns the messages of the notices of a code.
func warnings(s *stage, code string) (list []string) {
	for _, ev := range s.journal.events {
		if strings.Contains(string(ev.Payload), `"`+code+`"`) {
			list = append(list, string(ev.Payload))
		}
	}
	return list
}
