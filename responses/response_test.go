package responses_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

func TestOutputText(t *testing.T) {
	msg := func(phase responses.Phase, s string) responses.Item {
		return &responses.Message{Role: responses.RoleAssistant, Phase: phase,
			Content: []responses.Part{responses.OutputText(s)}}
	}
	refusal := &responses.Message{Role: responses.RoleAssistant, Phase: responses.PhaseFinalAnswer,
		Content: []responses.Part{{Type: responses.PartRefusal, Refusal: "no"}}}
	for _, tt := range []struct {
		output responses.Items
		want   string
	}{
		{nil, ""},
		{responses.Items{msg("", "a"), &responses.Reasoning{}, msg("", "b")}, "a\n\nb"},
		{responses.Items{msg(responses.PhaseFinalAnswer, "a"), msg(responses.PhaseCommentary, "b"),
			msg(responses.PhaseFinalAnswer, "c")}, "a\n\nc"},
		{responses.Items{msg(responses.PhaseCommentary, "a"), msg("", "b")}, "b"},
		{responses.Items{msg(responses.PhaseCommentary, "a"), msg("", "b"), msg(responses.PhaseFinalAnswer, "c")}, "c"},
		{responses.Items{msg(responses.PhaseCommentary, "a"), refusal}, "no"},
		{responses.Items{msg(responses.PhaseFinalAnswer, "c"), refusal}, "c"},
		{responses.Items{&responses.Message{Role: responses.RoleUser,
			Content: []responses.Part{responses.InputText("q")}}}, ""},
	} {
		r := responses.Response{Output: tt.output}
		expect.Equal(t, "OutputText", r.OutputText(), tt.want)
	}
	sum := usage.Add(usage)
	if sum.TotalTokens != 36 || sum.InputTokenDetails.CachedTokens != 6 || sum.OutputTokenDetails.ReasoningTokens != 4 {
		t.Errorf("usage sums to %+v", sum)
	}
}

// The 31 keys, null where null is allowed and absent where it is not.
func TestResponseGolden(t *testing.T) {
	full := request(t, `{"model":"scripted/demo","input":"x","previous_response_id":"resp_0","instructions":"brief",`+
		`"metadata":{"k":"v"},"max_output_tokens":100,"max_tool_calls":2,
		"tools":[{"type":"function","name":"f","parameters":{"type":"object"}}],"tool_choice":{"type":"function",`+
		`"name":"f"},"temperature":0.5,"reasoning":{"effort":"low"},
		"text":{"format":{"type":"json_schema","name":"n","schema":{"type":"object"},"strict":true},`+
		`"verbosity":"low"},"truncation":"auto","prompt_cache_key":"k","safety_identifier":"s","store":false}`)
	for name, r := range map[string]responses.Response{
		"response-minimal.json": {ID: "resp_1", Object: "response", Status: responses.StatusInProgress, Model: "m",
			Truncation: "disabled", ServiceTier: "default"},
		"response-full.json": responses.NewResponse("resp_1", "scripted/demo", 1_700_000_000, full),
	} {
		b, err := json.Marshal(r)
		expect.NoError(t, err)
		var keys map[string]json.RawMessage
		if err := json.Unmarshal(b, &keys); err != nil || len(keys) != 31 {
			t.Errorf("%s has %d keys, want 31 (%v)", name, len(keys), err)
		}
		var out bytes.Buffer
		expect.NoError(t, json.Indent(&out, b, "", "  "))
		golden(t, name, append(out.Bytes(), '\n'))
		back, err := responses.DecodeResponse(b)
		expect.NoError(t, err)
		if again, err := json.Marshal(back); err != nil || !bytes.Equal(again, b) {
			t.Errorf("%s changed in a round trip:\n%s\n%s", name, b, again)
		}
	}
	for _, bad := range []string{``, `{}`, `null`, `{"id":"x"}`, `{"id":"x","object":"list"}`,
		`{"id":1,"object":"response"}`, `{"id":"x","object":"response","output":[{"type":"message"}]}`} {
		_, err := responses.DecodeResponse([]byte(bad))
		if _, ok := errors.AsType[*responses.Error](err); !ok {
			t.Errorf("DecodeResponse(%s): %v", bad, err)
		}
	}
}
