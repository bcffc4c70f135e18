package mcp

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/agentd/preview"
	"holon/agentd/process"
	"holon/agentd/tools"
	"holon/agentd/tools/image"
	"holon/internal/mcpwire"
	"holon/internal/picture"
	"holon/internal/visible"
	"holon/responses"
)

// Bounds of a result.
const (
	maxParts      = 256
	maxImages     = 8
	maxStructured = 64 << 10 // bytes in the canonical result; a larger one is a file
	maxSummary    = 300      // bytes of what the host says that happened
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

// output returns the output of an answer. Text is cut to the budget, which all pieces share. Text that was cut, and
// other data, is stored as a file.
func (t *tool) output(answer *sdk.CallToolResult, env tools.Env) tools.Output {
	var structured json.RawMessage
	if answer.StructuredContent != nil {
		structured = encode(answer.StructuredContent)
	}
	if answer.IsError {
		return t.failure(answer, structured, env)
	}
	r := &result{Family: family, Server: t.server.name, Tool: t.listed.tool, Content: []contentPart{}}
	p := projection{r: r, artifacts: env.Artifacts, left: env.Policy.Budget(0) * tools.BytesPerToken}
	out := tools.Output{Result: r, Summary: fmt.Sprintf("%s answered: %d pieces of content", t.server.name,
		len(answer.Content))}
	if len(answer.Content) == 1 {
		out.Summary = t.server.name + " answered"
	}
	if t.server.host { // no other server says what the record has of a call
		out.Summary = cmp.Or(summary(answer.Meta), out.Summary)
	}
	for i, content := range answer.Content[:min(len(answer.Content), maxParts)] {
		p.add(i, content)
		if shown, ok := content.(*sdk.ImageContent); ok && env.Images && len(out.Images) < maxImages {
			out.Images = append(out.Images, p.show(i, shown.Data)...)
		}
	}
	if n := len(answer.Content) - len(r.Content); n > 0 {
		r.Notes = append(r.Notes, fmt.Sprintf("%d more pieces of content were dropped", n))
	}
	if len(structured) > maxStructured {
		r.StructuredArtifact = p.keep("structured.json", structured)
		r.Truncated = true
	} else {
		r.Structured = structured
	}
	r.Artifacts = env.Artifacts.List()
	if t.server.host { // no other server may direct a turn
		var err error
		if out.Directive, err = directive(answer.Meta); err != nil {
			return tools.Fail(&tools.Error{Kind: kindBadResult, Details: t.details(nil),
				Message:      "the directive of the host's answer is malformed; the call was made",
				RecoveryHint: "find out what happened before you call it again"})
		}
	}
	return out
}

// summary is the line of an answer of the host that says what happened, "" for none.
func summary(meta sdk.Meta) string {
	line, _ := meta[mcpwire.MetaSummary].(string)
	return visible.OneLine(line, maxSummary)
}

// directive is what the host says about the rest of the turn.
func directive(meta sdk.Meta) (d responses.Directive, err error) {
	data, err := json.Marshal(meta[mcpwire.MetaDirective])
	if err == nil {
		err = json.Unmarshal(data, &d)
	}
	d.Hidden = d.Hidden[:min(len(d.Hidden), maxHidden)]
	return d, err
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
	return &tools.Error{Kind: e.Kind, Message: tools.Clip(visible.OneLine(e.Message, 1000), 1000),
		RecoveryHint: tools.Clip(visible.OneLine(e.Hint, 500), 500), Retryable: e.Retryable, Details: details}
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
	message := visible.OneLine(whole, 1000)
	if message != whole {
		details["text"] = shown
	}
	return tools.Fail(&tools.Error{Kind: kindTool, Message: message, Details: t.details(details),
		RecoveryHint: "read the message; correct the arguments, or go on without it"})
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
		part = contentPart{Type: "image", MediaType: visible.OneLine(c.MIMEType, 100)}
		p.data(&part, i, c.Data)
	case *sdk.AudioContent:
		part = contentPart{Type: "audio", MediaType: visible.OneLine(c.MIMEType, 100)}
		p.data(&part, i, c.Data)
	case *sdk.ResourceLink:
		part = contentPart{Type: "resource_link", URI: visible.OneLine(c.URI, 1000), Name: visible.OneLine(c.Name, 200),
			MediaType: visible.OneLine(c.MIMEType, 100)}
		if c.Size != nil {
			part.Bytes = *c.Size
		}
	case *sdk.EmbeddedResource:
		part = contentPart{Type: "resource"}
		if c.Resource != nil {
			part.URI, part.MediaType = visible.OneLine(c.Resource.URI, 1000), visible.OneLine(c.Resource.MIMEType, 100)
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

// show returns a picture for the model, none for one that cannot be shown. The server's media type is not trusted.
func (p *projection) show(i int, data []byte) []tools.Image {
	if len(data) > image.MaxBytes {
		return nil
	}
	info, err := picture.Examine(data)
	if err != nil {
		p.r.Notes = append(p.r.Notes, fmt.Sprintf("picture %d %v", i, err))
		return nil
	}
	p.r.Content[i].Shown = true
	return []tools.Image{{MediaType: info.MediaType, Detail: "auto", Data: data}}
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
		if errors.Is(err, tools.ErrNoSpace) {
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
