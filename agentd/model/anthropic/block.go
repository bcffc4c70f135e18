package anthropic

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"mime"
	"net/url"
	"strings"
	"unicode/utf8"

	"holon/responses"
)

// Roles of messages. Messages of the system are possible within a conversation for
// models that accept them.
const (
	roleUser      = "user"
	roleAssistant = "assistant"
	roleSystem    = "system"
)

// message is one side's whole turn.
type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is a content block of any type. Type decides which of the other fields
// are set.
type block struct {
	Type string `json:"type"`
	Text string `json:"text,omitempty"` // text

	Thinking  *string `json:"thinking,omitempty"`  // thinking
	Signature *string `json:"signature,omitempty"` // thinking
	Data      string  `json:"data,omitempty"`      // redacted_thinking

	ID    string          `json:"id,omitempty"`    // tool_use
	Name  string          `json:"name,omitempty"`  // tool_use
	Input json.RawMessage `json:"input,omitempty"` // tool_use

	ToolUseID string `json:"tool_use_id,omitempty"` // tool_result
	Content   any    `json:"content,omitempty"`     // tool_result: a string or blocks
	IsError   bool   `json:"is_error,omitempty"`    // tool_result

	Source *source `json:"source,omitempty"` // image, document
	Title  string  `json:"title,omitempty"`  // document

	CacheControl *cacheControl `json:"cache_control,omitempty"`
}

// Types of blocks that this package writes, in addition to thoughts.
const (
	typeText       = "text"
	typeImage      = "image"
	typeDocument   = "document"
	typeToolUse    = "tool_use"
	typeToolResult = "tool_result"
)

// source is where the bytes of an image or a document are.
type source struct {
	Type      string `json:"type"` // base64, url or text
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
	URL       string `json:"url,omitempty"`
}

func textBlock(text string) block { return block{Type: typeText, Text: text} }

// blank reports whether the API refuses s as the text of a block.
func blank(s string) bool { return strings.TrimSpace(s) == "" }

// encodeParts returns parts as blocks, without blank texts. Only content shown to a
// model may hold more than text.
func encodeParts(parts []responses.Part, shown bool) ([]block, error) {
	list := make([]block, 0, len(parts))
	for _, p := range parts {
		var b block
		var err error
		switch p.Type {
		case responses.PartInputText, responses.PartOutputText, responses.PartText:
			b = textBlock(p.Text)
		case responses.PartRefusal:
			b = textBlock(p.Refusal)
		case responses.PartInputImage:
			b, err = imageBlock(p)
		case responses.PartInputFile:
			b, err = fileBlock(p)
		default:
			err = fmt.Errorf("content of type %q cannot be sent to this provider; leave it out", p.Type)
		}
		switch {
		case err != nil:
			return nil, err
		case b.Type == typeText && blank(b.Text):
		case b.Type != typeText && !shown:
			return nil, fmt.Errorf("content of type %q has no place in what the model or the system said; move it "+
				"to a message of the user", p.Type)
		default:
			list = append(list, b)
		}
	}
	return list, nil
}

func imageBlock(p responses.Part) (block, error) {
	src, err := sourceOf(p.ImageURL)
	if err != nil {
		return block{}, fmt.Errorf("the image: %w", err)
	}
	if src.Type == "base64" && !isImage(src.MediaType) {
		return block{}, fmt.Errorf("images of type %.80q cannot be sent to this provider; convert it to PNG, JPEG, "+
			"GIF or WebP", src.MediaType)
	}
	return block{Type: typeImage, Source: src}, nil
}

func isImage(mediaType string) bool {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return true
	}
	return false
}

// fileBlock returns a file as a document: a PDF as it is, text as text.
func fileBlock(p responses.Part) (block, error) {
	at := p.FileData
	if at == "" {
		at = p.FileURL
	}
	src, err := sourceOf(at)
	if err != nil {
		return block{}, fmt.Errorf("the file: %w", err)
	}
	b := block{Type: typeDocument, Source: src, Title: title(p.FileName)}
	switch {
	case src.Type == "url" || src.MediaType == "application/pdf":
		return b, nil
	case isImage(src.MediaType):
		return block{Type: typeImage, Source: src}, nil
	}
	text, err := base64.StdEncoding.DecodeString(src.Data)
	if err != nil {
		return block{}, fmt.Errorf("the file: its base64 can't be read: %w", err)
	}
	if !utf8.Valid(text) || strings.ContainsRune(string(text), 0) {
		return block{}, fmt.Errorf("files of type %.80q cannot be sent to this provider; it takes PDF, text and images",
			src.MediaType)
	}
	if blank(string(text)) {
		return textBlock(fmt.Sprintf("(The file %s is empty.)", title(p.FileName))), nil
	}
	b.Source = &source{Type: "text", MediaType: "text/plain", Data: string(text)}
	return b, nil
}

// title bounds the name of a file.
func title(name string) string {
	if len(name) > 200 {
		return strings.ToValidUTF8(name[:200], "")
	}
	return name
}

// sourceOf reads the URL of content: an https URL, or a data URL that holds it.
func sourceOf(at string) (*source, error) {
	rest, ok := strings.CutPrefix(at, "data:")
	if !ok {
		u, err := url.Parse(at)
		if err != nil || u.Host == "" || u.Scheme != "https" {
			return nil, fmt.Errorf("it is given by neither an https URL nor a data URL")
		}
		return &source{Type: "url", URL: at}, nil
	}
	head, data, ok := strings.Cut(rest, ",")
	head, encoded := strings.CutSuffix(head, ";base64")
	if !ok || !encoded {
		return nil, fmt.Errorf("its data URL is not base64; write data:TYPE;base64,DATA")
	}
	mediaType, _, err := mime.ParseMediaType(head)
	if err != nil {
		return nil, fmt.Errorf("its data URL names no media type; write data:TYPE;base64,DATA")
	}
	if mediaType == "image/jpg" {
		mediaType = "image/jpeg"
	}
	return &source{Type: "base64", MediaType: mediaType, Data: data}, nil
}
