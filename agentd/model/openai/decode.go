package openai

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// deltaKind maps the events that carry a piece of an item to ours. The two
// spellings of raw reasoning are OpenAI's and that of Open Responses.
func deltaKind(eventType string) model.EventKind {
	switch eventType {
	case "response.output_text.delta":
		return model.TextDelta
	case "response.refusal.delta":
		return model.RefusalDelta
	case "response.reasoning_summary_text.delta":
		return model.SummaryDelta
	case "response.reasoning_text.delta", "response.reasoning.delta":
		return model.ReasoningDelta
	case "response.function_call_arguments.delta", "response.custom_tool_call_input.delta":
		return model.CallDelta
	}
	return 0
}

// wireEvent has the keys that are read of the events other than deltas. The client's
// event type replaces halves of characters by U+FFFD, accepts malformed fields, and
// takes 12 µs and 13 KB for each delta, three times all other work on it.
type wireEvent struct {
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	SummaryIndex int             `json:"summary_index"`
	Delta        model.WireText  `json:"delta"`
	Text         string          `json:"text"`
	Refusal      string          `json:"refusal"`
	Arguments    string          `json:"arguments"`
	Input        string          `json:"input"`
	Item         json.RawMessage `json:"item"`
	Annotation   json.RawMessage `json:"annotation"`
	Logprobs     json.RawMessage `json:"logprobs"`
	Response     *wireResponse   `json:"response"`
}

type wireResponse struct {
	ID                string            `json:"id"`
	Status            string            `json:"status"`
	Output            []json.RawMessage `json:"output"`
	Usage             *responses.Usage  `json:"usage"`
	Error             *endpoint.Failure `json:"error"`
	IncompleteDetails *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
}

// wireItem has the keys that are read of items.
type wireItem struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"`
	CallID           string          `json:"call_id"`
	Name             string          `json:"name"`
	Arguments        string          `json:"arguments"` // function_call
	Input            string          `json:"input"`     // custom_tool_call
	Status           string          `json:"status"`
	Phase            responses.Phase `json:"phase"`
	EncryptedContent string          `json:"encrypted_content"`
	Content          []wirePart      `json:"content"`
	Summary          []wirePart      `json:"summary"`
}

type wirePart struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	Logprobs json.RawMessage `json:"logprobs"`
}

// logprobs reads log probabilities. Malformed ones are left out: an answer does not
// fail because of them.
func logprobs(raw json.RawMessage) (list []responses.LogProb) {
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// delta is the content of a delta event.
type delta struct {
	place
	index int // of the item in the output
	text  model.WireText
	probs []responses.LogProb
}

// readDelta reads a delta event of the usual form. ok is false for any other
// event; encoding/json then reads it. Both read the same from what is accepted.
func readDelta(data []byte) (d delta, ok bool) {
	content, summary := 0, 0
	ok = endpoint.Members(data, func(key string, value gjson.Result) (ok bool) {
		switch key {
		case "type":
			ok, d.kind = d.kind == 0 && value.Type == gjson.String, deltaKind(value.Str)
		case "delta":
			d.text, ok = endpoint.Text(value)
		case "output_index":
			d.index, ok = endpoint.Index(value)
		case "logprobs":
			ok = value.Raw == "[]"
		case "content_index":
			content, ok = endpoint.Index(value)
		case "summary_index":
			summary, ok = endpoint.Index(value)
		case "sequence_number", "item_id", "obfuscation":
			ok = true
		}
		return ok
	})
	d.place = placeOf(d.kind, content, summary)
	return d, ok && d.kind != 0
}
