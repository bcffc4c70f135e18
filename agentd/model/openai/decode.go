package openai

import (
	"encoding/json"
	"unicode/utf8"

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
	s := scanner{data: data}
	if !s.next('{') {
		return d, false
	}
	seen := [3]bool{}
	for {
		key, ok := s.plain()
		if !ok || !s.next(':') {
			return d, false
		}
		field := -1
		switch string(key) {
		case "type":
			var v []byte
			if v, ok = s.plain(); ok {
				field, d.kind = 0, deltaKind(string(v))
			}
		case "delta":
			field = 1
			d.text, ok = s.text()
		case "output_index":
			field = 2
			d.index, ok = s.number()
		case "sequence_number", "content_index", "summary_index":
			_, ok = s.number()
		case "item_id", "obfuscation":
			_, ok = s.plain()
		case "logprobs":
			ok = s.next('[') && s.next(']')
		default:
			return d, false
		}
		if !ok || field >= 0 && seen[field] {
			return d, false
		}
		if field >= 0 {
			seen[field] = true
		}
		if s.next('}') {
			break
		}
		if !s.next(',') {
			return d, false
		}
	}
	s.space()
	return d, s.at == len(data) && d.kind != 0 && seen[1]
}

// scanner walks over JSON tokens.
type scanner struct {
	data []byte
	at   int
}

func (s *scanner) space() {
	for s.at < len(s.data) {
		switch s.data[s.at] {
		case ' ', '\t', '\r', '\n':
			s.at++
		default:
			return
		}
	}
}

// next consumes c, after white space, if it comes next.
func (s *scanner) next(c byte) bool {
	s.space()
	if s.at < len(s.data) && s.data[s.at] == c {
		s.at++
		return true
	}
	return false
}

// plain consumes a string without escapes and returns what is in it.
func (s *scanner) plain() ([]byte, bool) {
	if !s.next('"') {
		return nil, false
	}
	start := s.at
	for ; s.at < len(s.data); s.at++ {
		switch c := s.data[s.at]; {
		case c == '"':
			s.at++
			return s.data[start : s.at-1], true
		case c == '\\' || c < 0x20:
			return nil, false
		}
	}
	return nil, false
}

// text consumes a string and returns its value.
func (s *scanner) text() (model.WireText, bool) {
	s.space()
	start := s.at
	if v, ok := s.plain(); ok {
		return model.WireText(v), utf8.Valid(v)
	}
	for s.at < len(s.data) && s.data[s.at] != '"' { // plain stopped at an escape, or at what is no string
		if s.data[s.at] == '\\' {
			s.at++
		}
		s.at++
	}
	if s.at >= len(s.data) {
		return "", false
	}
	s.at++
	var v model.WireText
	err := json.Unmarshal(s.data[start:s.at], &v)
	return v, err == nil
}

// number consumes a small whole number.
func (s *scanner) number() (n int, ok bool) {
	s.space()
	start := s.at
	for ; s.at < len(s.data) && s.data[s.at] >= '0' && s.data[s.at] <= '9'; s.at++ {
		n = 10*n + int(s.data[s.at]-'0')
	}
	digits := s.at - start
	return n, digits == 1 || digits > 1 && digits < 10 && s.data[start] != '0'
}
