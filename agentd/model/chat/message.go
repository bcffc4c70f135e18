package chat

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/internal/providers"
	"holon/responses"
)

// The messages of a conversation in the wire format.
type (
	wireMessage struct {
		Role             responses.Role    `json:"role"`
		Content          any               `json:"content"` // a string, parts, or null with calls
		ReasoningContent string            `json:"reasoning_content,omitempty"`
		Reasoning        string            `json:"reasoning,omitempty"`
		ReasoningDetails []json.RawMessage `json:"reasoning_details,omitempty"`
		ToolCalls        []wireCall        `json:"tool_calls,omitempty"`
		ToolCallID       string            `json:"tool_call_id,omitempty"`

		thought *responses.Reasoning
	}
	wireCall struct {
		ID       string           `json:"id"`
		Type     string           `json:"type"`
		Function wireCallFunction `json:"function"`
		Extra    json.RawMessage  `json:"extra_content,omitempty"`
	}
	wireCallFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	wirePart struct {
		Type     string     `json:"type"`
		Text     string     `json:"text,omitempty"`
		ImageURL *wireImage `json:"image_url,omitempty"`
		File     *wireFile  `json:"file,omitempty"`
	}
	wireImage struct {
		URL    string `json:"url"`
		Detail string `json:"detail,omitempty"`
	}
	wireFile struct {
		Name string `json:"filename,omitempty"`
		Data string `json:"file_data"`
	}
)

const roleTool responses.Role = "tool"

// conversation builds messages. Later items change only the assistant's last
// message, and only while no other message follows it, so that a growing
// conversation keeps its prefix.
type conversation struct {
	*Transport
	list    []*wireMessage
	thought *responses.Reasoning                       // of the assistant's next message
	outputs map[string][]*responses.FunctionCallOutput // not yet sent, by call
	open    []madeCall                                 // made together, not yet sent
	err     error                                      // of the first item that the provider does not accept
}

// madeCall is a call of the model.
type madeCall struct {
	id, name, arguments string
	round               string           // of a call of the container's
	own                 bool             // output holds its result
	output              []responses.Part // otherwise the result is in outputs, or missing
}

// together reports whether a call was made in the same answer as the last open
// one. The client's calls end a turn, so calls that follow them directly belong to
// the same answer.
func (c *conversation) together(call madeCall) bool {
	if len(c.open) == 0 {
		return false
	}
	last := c.open[len(c.open)-1]
	return !last.own || call.own && call.round != "" && call.round == last.round
}

// encodeMessages returns the conversation in the wire format. told is appended to
// the instructions.
func (t *Transport) encodeMessages(req model.Request, told string) ([]*wireMessage, error) {
	c := &conversation{Transport: t, list: []*wireMessage{}, outputs: make(map[string][]*responses.FunctionCallOutput)}
	if system := join(req.Instructions, told); system != "" {
		c.list = append(c.list, &wireMessage{Role: responses.RoleSystem, Content: system})
	}
	for _, item := range req.Input {
		if o, ok := item.(*responses.FunctionCallOutput); ok {
			c.outputs[o.CallID] = append(c.outputs[o.CallID], o)
		}
	}
	for i, item := range req.Input {
		if c.add(item); c.err != nil {
			return nil, endpoint.RefusedItem(i, c.err)
		}
	}
	if c.settle(); c.err != nil {
		return nil, endpoint.Refused("the last calls of the conversation", c.err)
	}
	for _, m := range c.list {
		t.think(m)
	}
	return c.list, nil
}

func (c *conversation) add(item responses.Item) {
	switch item := item.(type) {
	case *responses.FunctionCall:
		c.made(madeCall{id: item.CallID, name: item.Name, arguments: item.Arguments})
		return
	case *responses.ToolCall:
		output := append([]responses.Part{responses.InputText(item.Output)}, item.Media...)
		c.made(madeCall{id: item.CallID, name: item.Name, arguments: item.Arguments, round: item.Round,
			own: true, output: output})
		return
	}
	c.settle()
	switch item := item.(type) {
	case *responses.Message:
		c.message(item)
	case *responses.Reasoning:
		c.thought = item
	case *responses.FunctionCallOutput:
		c.orphan(item)
	case *responses.Compaction:
		c.err = errors.New("this provider cannot read a compaction")
	case *responses.ItemReference:
		c.err = endpoint.Referred(item)
	}
}

// made adds a call. The calls of one answer form one message.
func (c *conversation) made(call madeCall) {
	if !c.together(call) {
		c.settle()
	}
	c.open = append(c.open, call)
}

// assistant returns the message that a call joins: the assistant's message directly
// before it, or a new one.
func (c *conversation) assistant() *wireMessage {
	if n := len(c.list); n > 0 && c.thought == nil {
		if m := c.list[n-1]; m.Role == responses.RoleAssistant && len(m.ToolCalls) == 0 {
			return m
		}
	}
	m := &wireMessage{Role: responses.RoleAssistant, thought: c.thought}
	c.thought = nil
	c.list = append(c.list, m)
	return m
}

func (c *conversation) message(m *responses.Message) {
	if m.Role == responses.RoleAssistant {
		if text := textOfMessage(m); text != "" {
			w := c.assistant()
			before, _ := w.Content.(string)
			w.Content = join(before, text)
		}
		return
	}
	c.thought = nil // no output followed it
	role := responses.RoleUser
	if m.Role != responses.RoleUser {
		role = responses.RoleSystem // only OpenAI knows developers
	}
	if content := c.content(m.Content); content != nil {
		c.list = append(c.list, &wireMessage{Role: role, Content: content})
	}
}

// textOfMessage returns the text of an assistant's message, refusals included.
func textOfMessage(m *responses.Message) string {
	var b strings.Builder
	for _, p := range m.Content {
		b.WriteString(p.Text)
		b.WriteString(p.Refusal)
	}
	return b.String()
}

// content returns a single text as a string, the form that every server reads, and
// anything else as a list of parts; nil if there is no content.
func (c *conversation) content(list []responses.Part) any {
	var parts []wirePart
	text, plain := "", true
	for _, p := range list {
		w := c.part(p)
		plain = plain && w.Type == typeText
		if w.Type == typeText && w.Text == "" {
			continue
		}
		text = join(text, w.Text)
		parts = append(parts, w)
	}
	switch {
	case len(parts) == 0:
		return nil
	case plain:
		return text
	}
	return parts
}

const typeText = "text"

func (c *conversation) part(p responses.Part) wirePart {
	switch p.Type {
	case responses.PartInputText, responses.PartOutputText, responses.PartText:
		return wirePart{Type: typeText, Text: p.Text}
	case responses.PartRefusal:
		return wirePart{Type: typeText, Text: p.Refusal}
	case responses.PartInputImage:
		if c.dialect.Images && p.ImageURL != "" {
			image := &wireImage{URL: p.ImageURL}
			if p.Detail != "auto" {
				image.Detail = p.Detail
			}
			return wirePart{Type: "image_url", ImageURL: image}
		}
	case responses.PartInputFile:
		if c.dialect.Files && p.FileData != "" {
			return wirePart{Type: "file", File: &wireFile{p.FileName, p.FileData}}
		}
	}
	c.err = cmp.Or(c.err, fmt.Errorf("content of type %q cannot be sent to this provider in this form; leave it out",
		p.Type))
	return wirePart{}
}

// settle adds calls that were made together, followed by their outputs, as the
// API requires.
func (c *conversation) settle() {
	calls := c.open
	if len(calls) == 0 {
		return
	}
	c.open = nil
	m := c.assistant()
	for _, call := range calls {
		m.ToolCalls = append(m.ToolCalls, c.call(call.id, call.name, call.arguments))
	}
	var media []wirePart
	for _, call := range calls {
		output := call.output
		if !call.own {
			output = []responses.Part{responses.InputText(endpoint.Unanswered)}
			if waiting := c.outputs[call.id]; len(waiting) > 0 {
				output, c.outputs[call.id] = waiting[0].Output, waiting[1:]
			}
		}
		media = append(media, c.result(call.id, output)...)
	}
	if len(media) > 0 {
		c.list = append(c.list, &wireMessage{Role: responses.RoleUser, Content: media})
	}
}

// orphan adds an output whose call is not in the conversation.
func (c *conversation) orphan(o *responses.FunctionCallOutput) {
	waiting := c.outputs[o.CallID]
	if len(waiting) == 0 || waiting[0] != o {
		return // added with its call
	}
	c.outputs[o.CallID] = waiting[1:]
	c.list = append(c.list, &wireMessage{Role: responses.RoleUser, Content: c.content(
		append([]responses.Part{responses.InputText("The output of an earlier tool call:")}, o.Output...))})
}

// result adds a call's output. Its images and files are returned, since the API
// accepts them only from users.
func (c *conversation) result(callID string, output []responses.Part) (media []wirePart) {
	text := ""
	for _, p := range output {
		w := c.part(p)
		if w.Type == typeText {
			text = join(text, w.Text)
			continue
		}
		if len(media) == 0 {
			media = append(media, wirePart{Type: typeText, Text: "Shown by the tool call " + c.callID(callID) + ":"})
		}
		media = append(media, w)
	}
	c.list = append(c.list, &wireMessage{Role: roleTool, Content: text, ToolCallID: c.callID(callID)})
	return media
}

func (c *conversation) call(id, name, arguments string) wireCall {
	return wireCall{ID: c.callID(id), Type: "function",
		Function: wireCallFunction{name, endpoint.ObjectArguments(arguments)}}
}

// callID returns the id of a call in the form that the endpoint accepts. The same
// id gives the same result.
func (c *conversation) callID(id string) string {
	if !c.dialect.ShortCallIDs || len(id) == 9 && strings.IndexFunc(id, notAlphanumeric) < 0 {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	text := new(big.Int).SetBytes(sum[:]).Text(62)
	return (text + "000000000")[:9]
}

func notAlphanumeric(r rune) bool {
	return (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
}

// think returns the assistant's reasoning to the provider with its message. The
// text is sent only with calls, since it led to them; the provider's details are
// always sent.
func (t *Transport) think(m *wireMessage) {
	if m.Role != responses.RoleAssistant {
		return
	}
	var kept seal
	text := ""
	if r := m.thought; r != nil {
		text = thoughtText(r)
		if content, ours := model.Unseal(t.provider, r.EncryptedContent); ours {
			kept, _ = openSeal(content) // nothing is kept of content that a client changed
		}
	}
	if len(m.ToolCalls) > 0 {
		m.ToolCalls[0].Extra = kept.Extra // not a thought, so it is sent even where those are not
	}
	if t.dialect.Thoughts == providers.ThoughtsDropped {
		return
	}
	m.ReasoningDetails = kept.Details
	if len(m.ToolCalls) == 0 {
		return
	}
	switch {
	case t.dialect.Thoughts == providers.ThoughtsDemanded:
		m.ReasoningContent = text
		if text == "" {
			m.ReasoningContent = " " // required for calls without thoughts, too
		}
	case kept.Key == keyContent:
		m.ReasoningContent = text
	case kept.Key == keyReasoning:
		m.Reasoning = text
	}
}

// join concatenates two texts.
func join(a, b string) string {
	if a == "" || b == "" {
		return a + b
	}
	return a + "\n\n" + b
}
