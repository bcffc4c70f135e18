package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"holon/agentd/model"
	"holon/responses"
)

// The input takes its place in the body for any text before and after it.
func TestInputTakesItsPlace(t *testing.T) {
	marked := `","input":0,"x":"` + apartInput
	req := model.Request{
		Model: marked, Instructions: marked, Metadata: map[string]string{marked: marked}, PromptCacheKey: marked,
		Input: []responses.Item{&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText(marked)}}},
		Tools: []model.Tool{{Name: "t", Description: marked, Parameters: json.RawMessage(`{"a":1,"input":0,"b":2}`)}},
	}
	for name, tr := range map[string]*Transport{"the API": {}, "the Codex backend": {codex: true}} {
		encoded, err := tr.encode(req)
		if err != nil {
			t.Fatal(err)
		}
		body := encoded.Body
		var got struct {
			Model        string
			Instructions string
			Input        []struct{ Content []struct{ Text string } }
			Tools        []struct{ Parameters map[string]int }
		}
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatalf("%s: %v: %s", name, err, body)
		}
		switch {
		case got.Model != marked:
			t.Errorf("%s: got.Model = %q, want %q", name, got.Model, marked)
		case got.Instructions != marked:
			t.Errorf("%s: got.Instructions = %q, want %q", name, got.Instructions, marked)
		case len(got.Input) != 1:
			t.Errorf("%s: len(got.Input) = %d (%+v), want 1", name, len(got.Input), got.Input)
		case got.Input[0].Content[0].Text != marked:
			t.Errorf("%s: got.Input[0].Content[0].Text = %q, want %q", name, got.Input[0].Content[0].Text, marked)
		case len(got.Tools[0].Parameters) != 3:
			t.Errorf("%s: len(got.Tools[0].Parameters) = %d (%+v), want 3", name, len(got.Tools[0].Parameters),
				got.Tools[0].Parameters)
		}
		req.Input = nil
		if r, err := tr.encode(req); err != nil || !strings.Contains(string(r.Body), `,"input":[],`) {
			t.Errorf("%s without input: %v: %s", name, err, r.Body)
		}
		req.Input = []responses.Item{&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText(marked)}}}
	}
}
