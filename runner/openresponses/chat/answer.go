package chat

import (
	"bytes"
	"errors"
	"net/http"
	"strings"

	"holon/responses"
)

// Writer takes the answer of POST /v1/responses, as JSON or as a stream in any framing, and writes the completion that
// it is. What is no answer, such as an error, passes as it is. Finish it.
type Writer struct {
	http.ResponseWriter
	request Request
	status  int
	rest    []byte // of the answer, or of a line that has not ended
	stream  chunks
}

// NewWriter returns a writer of the answer to q.
func NewWriter(w http.ResponseWriter, q Request) *Writer {
	return &Writer{ResponseWriter: w, request: q, stream: chunks{usage: q.IncludeUsage}}
}

// Unwrap is for http.ResponseController.
func (w *Writer) Unwrap() http.ResponseWriter { return w.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (w *Writer) WriteHeader(status int) {
	w.status = status
	h := w.Header()
	if status == http.StatusOK {
		h.Del("Content-Length")
		h.Set("Content-Type", "application/json")
		if w.request.Stream {
			h.Set("Content-Type", "text/event-stream")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

// errTooLarge is the error of an answer that no client could take.
var errTooLarge = errors.New("the answer is too large")

// Write implements http.ResponseWriter.
func (w *Writer) Write(data []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	if w.status != http.StatusOK {
		return w.ResponseWriter.Write(data)
	}
	if w.rest = append(w.rest, data...); len(w.rest) > 2*responses.MaxResponse {
		return 0, errTooLarge
	}
	if !w.request.Stream {
		return len(data), nil
	}
	for {
		line, rest, whole := bytes.Cut(w.rest, []byte("\n"))
		if !whole {
			return len(data), nil
		}
		out, err := w.stream.line(line)
		w.rest = rest
		if err == nil && len(out) > 0 {
			_, err = w.ResponseWriter.Write(out)
		}
		if err != nil {
			return 0, err
		}
	}
}

// Finish writes what is left of an answer that came whole.
func (w *Writer) Finish() error {
	if w.status != http.StatusOK || w.request.Stream {
		return nil
	}
	var r response
	if err := responses.Unmarshal(w.rest, &r); err != nil {
		return err
	}
	body, err := responses.Marshal(r.completion())
	if err == nil {
		_, err = w.ResponseWriter.Write(append(body, '\n'))
	}
	return err
}

// response is what a completion has of a response.
type response struct {
	ID        string `json:"id"`
	CreatedAt int64  `json:"created_at"`
	Model     string `json:"model"`
	Output    []item `json:"output"`
	Usage     *struct {
		InputTokens  int `json:"input_tokens"`
		OutputTokens int `json:"output_tokens"`
		TotalTokens  int `json:"total_tokens"`
		Input        struct {
			Cached int `json:"cached_tokens"`
		} `json:"input_tokens_details"`
		Output struct {
			Reasoning int `json:"reasoning_tokens"`
		} `json:"output_tokens_details"`
	} `json:"usage"`
	Incomplete *struct {
		Reason string `json:"reason"`
	} `json:"incomplete_details"`
	Error *responses.Error `json:"error"`
}

type item struct {
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
}

type usage struct {
	PromptTokens     int `json:"prompt_tokens"`
	CompletionTokens int `json:"completion_tokens"`
	TotalTokens      int `json:"total_tokens"`
	PromptDetails    struct {
		Cached int `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
	CompletionDetails struct {
		Reasoning int `json:"reasoning_tokens"`
	} `json:"completion_tokens_details"`
}

func (r *response) used() *usage {
	if r.Usage == nil {
		return nil
	}
	u := &usage{PromptTokens: r.Usage.InputTokens, CompletionTokens: r.Usage.OutputTokens,
		TotalTokens: r.Usage.TotalTokens}
	u.PromptDetails.Cached, u.CompletionDetails.Reasoning = r.Usage.Input.Cached, r.Usage.Output.Reasoning
	return u
}

// completion is a chat.completion, or a chunk of one.
type completion struct {
	ID      string   `json:"id"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	Model   string   `json:"model"`
	Choices []choice `json:"choices"`
	Usage   *usage   `json:"usage"`
}

type choice struct {
	Index        int            `json:"index"`
	Message      *answerMessage `json:"message,omitempty"`
	Delta        *delta         `json:"delta,omitempty"`
	FinishReason *string        `json:"finish_reason"`
}

// answerMessage is the message of a completion.
type answerMessage struct {
	Role      string  `json:"role"`
	Content   *string `json:"content"`
	Refusal   *string `json:"refusal"`
	ToolCalls []call  `json:"tool_calls,omitempty"`
}

// between separates the messages of a response, which are one here.
const between = "\n\n"

func (r *response) completion() completion {
	m := answerMessage{Role: "assistant"}
	var texts, refusals []string
	for _, it := range r.Output {
		switch it.Type {
		case "message":
			text := ""
			for _, p := range it.Content {
				text += p.Text
				if p.Refusal != "" {
					refusals = append(refusals, p.Refusal)
				}
			}
			if text != "" {
				texts = append(texts, text)
			}
		case "function_call":
			m.ToolCalls = append(m.ToolCalls, call{ID: it.CallID, Type: "function",
				Function: callFunction{it.Name, it.Arguments}})
		}
	}
	m.Content, m.Refusal = joined(texts), joined(refusals)
	return completion{ID: r.ID, Object: "chat.completion", Created: r.CreatedAt, Model: r.Model, Usage: r.used(),
		Choices: []choice{{Message: &m, FinishReason: r.reason(len(m.ToolCalls) > 0)}}}
}

func joined(texts []string) *string {
	if len(texts) == 0 {
		return nil
	}
	all := strings.Join(texts, between)
	return &all
}

// reason is why a completion has ended.
func (r *response) reason(calls bool) *string {
	reason := "stop"
	switch {
	case r.Incomplete != nil && r.Incomplete.Reason == "content_filter":
		reason = "content_filter"
	case r.Incomplete != nil:
		reason = "length"
	case calls:
		reason = "tool_calls"
	}
	return &reason
}
