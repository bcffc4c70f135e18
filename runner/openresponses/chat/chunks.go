package chat

import (
	"bytes"

	"holon/responses"
)

// chunks makes the stream of a completion from that of a response.
type chunks struct {
	usage bool

	head  completion
	calls map[int]int // by output index
	texts int         // messages with a text
	item  int         // output index of the last text, plus one
}

// delta is what a chunk adds.
type delta struct {
	Role      string  `json:"role,omitempty"`
	Content   *string `json:"content,omitempty"`
	Refusal   *string `json:"refusal,omitempty"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

// event is one of a response.
type event struct {
	Type        string           `json:"type"`
	OutputIndex int              `json:"output_index"`
	Delta       string           `json:"delta"`
	Item        item             `json:"item"`
	Response    response         `json:"response"`
	Error       *responses.Error `json:"error"`
}

// line returns the chunks of a line of the stream, which is an event in JSON, with or without the framing of SSE, or
// none.
func (c *chunks) line(line []byte) ([]byte, error) {
	line = bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data:")))
	if len(line) == 0 || line[0] != '{' {
		return nil, nil
	}
	var e event
	if err := responses.Unmarshal(line, &e); err != nil {
		return nil, err
	}
	return c.event(e)
}

func (c *chunks) event(e event) ([]byte, error) {
	switch e.Type {
	case "response.created":
		c.calls = make(map[int]int)
		c.head = completion{ID: e.Response.ID, Object: "chat.completion.chunk", Created: e.Response.CreatedAt,
			Model: e.Response.Model}
		return c.chunk(delta{Role: "assistant", Content: new(string)}, nil)
	case "response.output_text.delta":
		if c.item != e.OutputIndex+1 {
			if c.texts++; c.texts > 1 {
				e.Delta = between + e.Delta
			}
			c.item = e.OutputIndex + 1
		}
		return c.chunk(delta{Content: &e.Delta}, nil)
	case "response.refusal.delta":
		return c.chunk(delta{Refusal: &e.Delta}, nil)
	case "response.output_item.added":
		if e.Item.Type != "function_call" {
			return nil, nil
		}
		n := len(c.calls)
		c.calls[e.OutputIndex] = n
		return c.chunk(delta{ToolCalls: []call{{Index: &n, ID: e.Item.CallID, Type: "function",
			Function: callFunction{Name: e.Item.Name}}}}, nil)
	case "response.function_call_arguments.delta":
		n, ok := c.calls[e.OutputIndex]
		if !ok {
			return nil, nil
		}
		return c.chunk(delta{ToolCalls: []call{{Index: &n, Function: callFunction{Arguments: e.Delta}}}}, nil)
	case "response.completed", "response.incomplete":
		return c.end(&e.Response)
	case "response.failed", "error":
		return failure(e)
	}
	return nil, nil
}

// end is the last chunk, that of the usage, and the mark of the end.
func (c *chunks) end(r *response) ([]byte, error) {
	out, err := c.chunk(delta{}, r.reason(len(c.calls) > 0))
	if err == nil && c.usage {
		last := c.head
		last.Choices, last.Usage = []choice{}, r.used()
		var more []byte
		more, err = framed(last)
		out = append(out, more...)
	}
	return append(out, "data: [DONE]\n\n"...), err
}

func failure(e event) ([]byte, error) {
	failed := e.Error
	if failed == nil {
		failed = e.Response.Error
	}
	if failed == nil {
		failed = responses.Internal("the turn failed", nil)
	}
	return append(append([]byte("data: "), failed.Envelope()...), "\n\n"...), nil
}

func (c *chunks) chunk(d delta, reason *string) ([]byte, error) {
	next := c.head
	next.Choices = []choice{{Delta: &d, FinishReason: reason}}
	return framed(next)
}

func framed(v completion) ([]byte, error) {
	body, err := responses.Marshal(v)
	if err != nil {
		return nil, err
	}
	return append(append([]byte("data: "), body...), "\n\n"...), nil
}
