package openai

import (
	"encoding/json"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/agentd/model/scan"
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

// wireEvent has the keys of the other events that are read.
type wireEvent struct {
	OutputIndex int             `json:"output_index"`
	Delta       model.WireText  `json:"delta"`
	Text        string          `json:"text"`
	Refusal     string          `json:"refusal"`
	Arguments   string          `json:"arguments"`
	Input       string          `json:"input"`
	Item        json.RawMessage `json:"item"`
	Annotation  json.RawMessage `json:"annotation"`
	Logprobs    json.RawMessage `json:"logprobs"`
	Response    *wireResponse   `json:"response"`
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

// wireItem has the keys of the items that are read.
type wireItem struct {
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

// logprobs reads log probabilities. What cannot be read is left out: an answer
// does not fail for what only accompanies it.
func logprobs(raw json.RawMessage) (list []responses.LogProb) {
	if len(raw) == 0 || json.Unmarshal(raw, &list) != nil {
		return nil
	}
	return list
}

// delta is what a delta event says.
type delta struct {
	kind  model.EventKind
	index int // of the item in the output
	text  model.WireText
	probs []responses.LogProb
}

// scanDelta reads a delta event of ordinary form in one pass. It gives up, with
// ok false, on everything unusual (another key, invalid UTF-8), which
// encoding/json then reads; what it accepts means the same to both.
func scanDelta(data []byte) (d delta, ok bool) {
	s := scan.Of(data)
	if !s.Next('{') {
		return d, false
	}
	seen := [3]bool{}
	for {
		key, ok := s.Plain()
		if !ok || !s.Next(':') {
			return d, false
		}
		field := -1
		switch string(key) {
		case "type":
			var v []byte
			if v, ok = s.Plain(); ok {
				field, d.kind = 0, deltaKind(string(v))
			}
		case "delta":
			field = 1
			d.text, ok = s.Text()
		case "output_index":
			field = 2
			d.index, ok = s.Number()
		case "sequence_number", "content_index", "summary_index":
			_, ok = s.Number()
		case "item_id", "obfuscation":
			_, ok = s.Plain()
		case "logprobs":
			ok = s.Next('[') && s.Next(']')
		default:
			return d, false
		}
		if !ok || field >= 0 && seen[field] {
			return d, false
		}
		if field >= 0 {
			seen[field] = true
		}
		if s.Next('}') {
			break
		}
		if !s.Next(',') {
			return d, false
		}
	}
	return d, s.End() && d.kind != 0 && seen[1]
}
