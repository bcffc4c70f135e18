package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"

	"holon/agentd/preview"
	"holon/agentd/tools"
)

// Render implements the renderer of package tools: text as it is, and a line for other content.
func (t *tool) Render(canonical tools.Result, policy tools.RenderPolicy) string {
	return Family{}.Render(canonical, policy)
}

// Family is the results of tools of servers. It implements the family of package tools.
type Family struct{}

func (Family) Owns(canonical tools.Result) bool {
	var r struct {
		Family string `json:"family"`
	}
	return json.Unmarshal(canonical.Result, &r) == nil && r.Family == family
}

func (Family) Render(canonical tools.Result, policy tools.RenderPolicy) string {
	var r result
	if err := json.Unmarshal(canonical.Result, &r); err != nil {
		return canonical.SummaryText
	}
	var lines []string
	texts := 0
	for _, p := range r.Content {
		if p.TextPreview != nil {
			texts++
		}
		if line := p.render(r.Artifacts, policy); line != "" {
			lines = append(lines, line)
		}
	}
	switch {
	case texts == 0 && r.Structured != nil: // servers repeat it as text, as the protocol advises
		lines = append(lines, string(r.Structured))
	case r.StructuredArtifact != nil:
		lines = append(lines, "[structured content: "+file(r.Artifacts, r.StructuredArtifact, policy)+"]")
	}
	for _, note := range r.Notes {
		lines = append(lines, "["+note+"]")
	}
	if len(lines) == 0 {
		if r.Truncated {
			return "(content left out)"
		}
		return "(no content)"
	}
	return strings.Join(lines, "\n")
}

// Compact implements the family of package tools. Structured content goes first where text repeats it.
func (Family) Compact(canonical tools.Result, b tools.Bounds) (tools.Result, bool) {
	var r result
	if err := json.Unmarshal(canonical.Result, &r); err != nil {
		return canonical, false
	}
	if n := len(r.Content) - b.List; n > 0 {
		r.Content, r.Truncated = r.Content[:b.List], true
		r.Notes = append(r.Notes, fmt.Sprintf("%d more pieces of content were left out", n))
	}
	texts := 0
	for _, p := range r.Content {
		if p.TextPreview != nil {
			texts++
		}
	}
	if texts > 0 && len(r.Structured) > 0 {
		r.Structured, r.Truncated = nil, true
	}
	if len(r.Structured) > b.Text {
		var lines bytes.Buffer // which a cut can keep whole
		if json.Indent(&lines, r.Structured, "", " ") != nil {
			lines.Write(r.Structured)
		}
		r.Content = append(r.Content, contentPart{Type: "structured", TextPreview: new(lines.String()),
			Bytes: int64(len(r.Structured))})
		r.Structured, texts = nil, 1
	}
	for i := range r.Content {
		short, cut := preview.Shorten(r.Content[i].TextPreview, b.Text/max(texts, 1))
		r.Content[i].TextPreview, r.Truncated = short, r.Truncated || cut
	}
	return canonical.With(r), true
}

func (Family) Truncated(canonical tools.Result) bool {
	var r result
	_ = json.Unmarshal(canonical.Result, &r) // another shape has no flag
	return r.Truncated
}

func (p contentPart) render(artifacts []tools.Artifact, policy tools.RenderPolicy) string {
	var b strings.Builder
	if p.TextPreview == nil || p.Type != "text" {
		b.WriteString("[" + p.Type)
		for _, fact := range []string{p.Name, p.URI, p.MediaType} {
			if fact != "" {
				b.WriteString(" " + fact)
			}
		}
		if p.Bytes > 0 {
			fmt.Fprintf(&b, ", %d bytes", p.Bytes)
		}
		switch {
		case p.Type != "image":
		case p.Shown:
			b.WriteString(", shown")
		default:
			b.WriteString(", not shown")
		}
		if path := file(artifacts, p.Artifact, policy); path != "" && p.TextPreview == nil {
			b.WriteString(", kept as " + path)
		}
		b.WriteString("]")
	}
	if p.TextPreview != nil {
		if b.Len() > 0 {
			b.WriteString("\n")
		}
		b.WriteString(*p.TextPreview)
		if path := file(artifacts, p.Artifact, policy); path != "" {
			b.WriteString("\n[all of it: " + path + "]")
		}
	}
	return b.String()
}

// file returns the path of the artifact that index names, "" for none.
func file(artifacts []tools.Artifact, index *int, policy tools.RenderPolicy) string {
	if index == nil || *index < 0 || *index >= len(artifacts) {
		return ""
	}
	return filepath.Join(policy.OutputDir, artifacts[*index].Path)
}
