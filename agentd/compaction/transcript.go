package compaction

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"holon/responses"
)

// maxOutput bounds the arguments and the output of one call in a transcript, in
// bytes. The exit status of a command is at the beginning of its output, and the
// cause of a failure at the end.
const maxOutput = 8 << 10

// entry is a line of the transcript that a summary is made of. A line is a JSON
// object, so that no text can imitate another speaker.
type entry struct {
	Who       string `json:"who"`
	Call      string `json:"call,omitempty"` // the tool that was called
	Arguments string `json:"arguments,omitempty"`
	Says      string `json:"says,omitempty"`
	Waiting   bool   `json:"waiting,omitempty"` // the call has no output yet
}

// line encodes e with at most limit bytes of each text, before escaping.
func (e entry) line(limit int) string {
	e.Arguments, e.Says = shorten(e.Arguments, limit), shorten(e.Says, limit)
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if enc.Encode(e) != nil {
		return "" // strings always have a JSON form
	}
	return b.String()
}

// transcript returns the transcript of a conversation.
func transcript(items []responses.Item) []entry {
	open := waiting(items)
	list := make([]entry, 0, len(items))
	for i, item := range items {
		switch item := item.(type) {
		case *responses.Message:
			who := string(item.Role)
			if isSummary(item) {
				who = "earlier summary"
			}
			list = append(list, entry{Who: who, Says: textOf(item.Content)})
		case *responses.FunctionCall:
			list = append(list, entry{Who: "assistant", Call: item.Name, Arguments: shorten(item.Arguments, maxOutput),
				Waiting: open[i]})
		case *responses.FunctionCallOutput:
			list = append(list, entry{Who: "tool", Says: shorten(textOf(item.Output), maxOutput)})
		case *responses.ToolCall:
			list = append(list, entry{Who: "assistant", Call: item.Name, Arguments: shorten(item.Arguments, maxOutput)},
				entry{Who: "tool", Says: shorten(item.Output, maxOutput)})
		case *responses.Reasoning:
			if text := textOf(item.Summary); text != "" {
				list = append(list, entry{Who: "assistant, thinking", Says: text})
			}
		}
	}
	return list
}

// textOf returns the text of parts, with names for images, videos and files.
func textOf(parts []responses.Part) string {
	var texts []string
	for _, p := range parts {
		switch p.Type {
		case responses.PartInputImage:
			texts = append(texts, "[an image]")
		case responses.PartInputVideo:
			texts = append(texts, "[a video]")
		case responses.PartInputFile:
			texts = append(texts, strings.TrimSpace("[a file "+shorten(p.FileName, 200))+"]")
		default:
			texts = append(texts, p.Text+p.Refusal)
		}
	}
	return strings.Join(texts, "\n")
}

// shorten leaves out the middle of a text of more than limit bytes.
func shorten(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	head, tail := text[:limit*2/3], text[len(text)-limit/3:]
	return fmt.Sprintf("%s […%d bytes left out…] %s", strings.ToValidUTF8(head, ""), len(text)-len(head)-len(tail),
		strings.ToValidUTF8(tail, ""))
}
