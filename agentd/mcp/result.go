package mcp

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/agentd/tools"
	"holon/agentd/tools/image"
	"holon/internal/picture"
)

// Bounds of a result.
const (
	maxParts      = 256
	maxImages     = 8
	maxStructured = 64 << 10 // bytes in the canonical result; a larger one is a file
)

// family is the value of result.family.
const family = "mcp"

// result is the canonical result of the family.
type result struct {
	Family     string           `json:"family"`
	Server     string           `json:"server"`
	Tool       string           `json:"tool"` // the server's own name
	Content    []contentPart    `json:"content"`
	Structured json.RawMessage  `json:"structured_content,omitempty"`
	Truncated  bool             `json:"truncated"` // something was not shown to the model
	Artifacts  []tools.Artifact `json:"artifacts"`
	Notes      []string         `json:"notes,omitempty"` // missing parts, with the reason

	StructuredArtifact *int `json:"structured_artifact,omitempty"` // when it is too large for the result
}

// contentPart is one piece of content.
type contentPart struct {
	Type        string  `json:"type"` // text, image, audio, resource, resource_link or structured
	TextPreview *string `json:"text_preview,omitempty"`
	MediaType   string  `json:"media_type,omitempty"`
	URI         string  `json:"uri,omitempty"`
	Name        string  `json:"name,omitempty"`
	Bytes       int64   `json:"bytes"`
	Artifact    *int    `json:"artifact,omitempty"` // index in artifacts: all of it
	Shown       bool    `json:"shown,omitempty"`    // a picture that the model got
}

// output returns the complete output of an answer.
func (t *tool) output(answer *sdk.CallToolResult, env tools.Env) tools.Output {
	var structured json.RawMessage
	if answer.StructuredContent != nil {
		structured = encode(answer.StructuredContent)
	}
	if answer.IsError {
		return t.failure(answer, structured, env)
	}
	c := &complete{tool: t, structured: structured, content: answer.Content[:min(len(answer.Content), maxParts)]}
	if n := len(answer.Content) - len(c.content); n > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%d more pieces of content were dropped", n))
	}
	out := tools.Output{Result: c}
	if text, ok := answer.Meta[metaReminder].(string); ok && t.server.host {
		out.Reminder = &text
	}
	if list, ok := answer.Meta[metaHidden].([]any); ok && t.server.host {
		for _, v := range list[:min(len(list), maxHidden)] {
			if text, ok := v.(string); ok {
				out.Hidden = append(out.Hidden, text)
			}
		}
	}
	for i, content := range c.content {
		shown, ok := content.(*sdk.ImageContent)
		if !ok || !env.Images || len(out.Images) == maxImages || len(shown.Data) > image.MaxBytes {
			continue
		}
		info, err := picture.Examine(shown.Data) // the server's media type is not trusted
		if err != nil {
			c.notes = append(c.notes, fmt.Sprintf("picture %d %v", i, err))
			continue
		}
		out.Images = append(out.Images, tools.Image{MediaType: info.MediaType, Detail: "auto", Data: shown.Data})
		c.shown = append(c.shown, i)
	}
	out.Summary = fmt.Sprintf("%s answered: %d pieces of content", t.server.name, len(answer.Content))
	if len(answer.Content) == 1 {
		out.Summary = t.server.name + " answered"
	}
	return out
}

// hostError is the error of a tool of the host, nil if the answer has another form.
func (t *tool) hostError(structured json.RawMessage) *tools.Error {
	var e struct {
		Kind, Message, Hint, Field string
		Retryable                  bool
		Details                    map[string]any
	}
	if json.Unmarshal(structured, &e) != nil || !errorKind(e.Kind) || e.Message == "" {
		return nil
	}
	details := t.details(e.Details)
	if e.Field != "" {
		details["field"] = e.Field
	}
	return &tools.Error{Kind: e.Kind, Message: tools.Clip(clean(e.Message, 1000), 1000),
		RecoveryHint: tools.Clip(clean(e.Hint, 500), 500), Retryable: e.Retryable, Details: details}
}

// errorKind reports whether s can be the kind of an error.
func errorKind(s string) bool {
	return s != "" && len(s) <= 64 && strings.Trim(s, "abcdefghijklmnopqrstuvwxyz_") == ""
}

// failure returns the output of an answer that reports an error. The host says of which
// kind it is.
func (t *tool) failure(answer *sdk.CallToolResult, structured json.RawMessage, env tools.Env) tools.Output {
	if t.server.host {
		if e := t.hostError(structured); e != nil {
			return tools.Fail(e)
		}
	}
	var text strings.Builder
	for _, content := range answer.Content[:min(len(answer.Content), maxParts)] {
		if c, ok := content.(*sdk.TextContent); ok {
			text.WriteString(c.Text)
			text.WriteString("\n")
		}
	}
	whole := strings.TrimSpace(text.String())
	if whole == "" {
		whole = "the tool failed and does not say why"
	}
	shown, cut := cutText(whole, 8<<10)
	details := map[string]any{}
	if cut {
		if index, err := env.Artifacts.Write("error.txt", []byte(whole)); err == nil && index != nil {
			details["artifact"] = env.Artifacts.List()[*index].Path
		}
	}
	if len(structured) > 0 && len(structured) <= 8<<10 {
		details["structured_content"] = structured
	}
	message := clean(whole, 1000)
	if message != whole {
		details["text"] = shown
	}
	return tools.Fail(&tools.Error{Kind: kindTool, Message: message, Details: t.details(details),
		RecoveryHint: "read the message; correct the arguments, or go on without it"})
}

// complete is the whole output of a call that succeeded.
type complete struct {
	tool       *tool
	content    []sdk.Content
	structured json.RawMessage
	shown      []int // pictures that the model gets
	notes      []string
}

// Project implements the projector of package tools: text is cut to the budget, which all pieces
// share. Text that was cut, and other data, is stored as a file.
func (c *complete) Project(policy tools.Policy, artifacts *tools.Artifacts) (any, error) {
	r := result{Family: family, Server: c.tool.server.name, Tool: c.tool.listed.tool, Content: []contentPart{},
		Notes: c.notes}
	p := projection{r: &r, artifacts: artifacts, left: policy.Budget(0) * tools.BytesPerToken}
	for i, content := range c.content {
		p.add(i, content)
	}
	for _, i := range c.shown {
		r.Content[i].Shown = true
	}
	if len(c.structured) > maxStructured {
		r.StructuredArtifact = p.keep("structured.json", c.structured)
		r.Truncated = true
	} else {
		r.Structured = c.structured
	}
	r.Artifacts = artifacts.List()
	return r, nil
}

// projection fills a result.
type projection struct {
	r         *result
	artifacts *tools.Artifacts
	left      int // bytes of text that may still be shown
}

func (p *projection) add(i int, content sdk.Content) {
	part := contentPart{}
	switch c := content.(type) {
	case *sdk.TextContent:
		part = contentPart{Type: "text"}
		p.text(&part, i, c.Text)
	case *sdk.ImageContent:
		part = contentPart{Type: "image", MediaType: clean(c.MIMEType, 100)}
		p.data(&part, i, c.Data)
	case *sdk.AudioContent:
		part = contentPart{Type: "audio", MediaType: clean(c.MIMEType, 100)}
		p.data(&part, i, c.Data)
	case *sdk.ResourceLink:
		part = contentPart{Type: "resource_link", URI: clean(c.URI, 1000), Name: clean(c.Name, 200),
			MediaType: clean(c.MIMEType, 100)}
		if c.Size != nil {
			part.Bytes = *c.Size
		}
	case *sdk.EmbeddedResource:
		part = contentPart{Type: "resource"}
		if c.Resource != nil {
			part.URI, part.MediaType = clean(c.Resource.URI, 1000), clean(c.Resource.MIMEType, 100)
			if c.Resource.Blob != nil {
				p.data(&part, i, c.Resource.Blob)
			} else {
				p.text(&part, i, c.Resource.Text)
			}
		}
	default:
		part = contentPart{Type: "unknown"}
	}
	p.r.Content = append(p.r.Content, part)
}

func (p *projection) text(part *contentPart, i int, text string) {
	part.Bytes = int64(len(text))
	if text == "" {
		return
	}
	shown, cut := cutText(text, p.left)
	part.TextPreview = &shown
	p.left = max(0, p.left-len(shown))
	if cut {
		p.r.Truncated = true
		part.Artifact = p.keep(fmt.Sprintf("content-%d.txt", i), []byte(text))
	}
}

func (p *projection) data(part *contentPart, i int, data []byte) {
	part.Bytes = int64(len(data))
	if len(data) > 0 {
		part.Artifact = p.keep(fmt.Sprintf("content-%d.bin", i), data)
	}
}

// keep writes a file of the call. If that fails, the result has a note.
func (p *projection) keep(name string, data []byte) *int {
	index, err := p.artifacts.Write(name, data)
	if err != nil {
		why := "it could not be written"
		if errors.Is(err, tools.ErrNoRoom) {
			why = err.Error()
		}
		p.r.Notes = append(p.r.Notes, name+" was not kept: "+why)
	}
	return index
}

// cutText returns at most about budget bytes of text, in the form of a command's
// output.
func cutText(text string, budget int) (string, bool) {
	c := process.Capture{Head: []byte(text), Total: int64(len(text)), Lines: int64(strings.Count(text, "\n"))}
	shown, cut := preview.Of(c).Cut(budget)
	if shown == nil {
		return "", false
	}
	return *shown, cut
}
