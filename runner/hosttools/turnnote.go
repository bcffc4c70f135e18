package hosttools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/internal/visible"
)

// noteName is the tool that attaches a note to the run's record.
const noteName = "turn_note"

// metaCallID is the key of a call's id in the _meta of tools/call.
const metaCallID = "holon/call_id"

// metaRound is the key, in the _meta of a tool, that asks for the round of its calls, and in that of tools/call the key
// of the round.
const metaRound = "holon/round"

// metaReminder is the key of Result.Reminder in the _meta of a result.
const metaReminder = "holon/reminder"

// metaHidden is the key of Result.Hidden there.
const metaHidden = "holon/hidden"

// Bounds of a call of turn_note, in bytes.
const (
	maxText   = 4 << 10
	maxKind   = 32
	maxCallID = 256
)

const defaultKind = "note"

// noteArgs are the arguments of turn_note.
type noteArgs struct {
	Text string `json:"text"`
	Kind string `json:"kind"`
}

func noteTool() *mcp.Tool {
	return &mcp.Tool{
		Name: noteName,
		Description: "Attaches a short note to the record of this run, for the person who started it: a decision " +
			"and its reason, something that is left to do, a risk. " +
			"It is kept even if the run fails later. It is no way to answer; say what you found in your answer too.",
		InputSchema: json.RawMessage(`{"type":"object","properties":{` +
			`"text":{"type":"string","minLength":1,"maxLength":4096,"description":"what to note, in plain words, ` +
			`at most 4096 bytes"},` +
			`"kind":{"type":"string","pattern":"^[a-z][a-z0-9_-]{0,31}$","description":"what sort of note it is, ` +
			`for example decision, todo or risk; default note"}},` +
			`"required":["text"],"additionalProperties":false}`),
	}
}

// turnNote carries out a call of turn_note.
func (s *Server) turnNote(_ context.Context, req *mcp.CallToolRequest) (*mcp.CallToolResult, error) {
	args, callID, bad := readNote(req.Params)
	if bad != nil {
		return s.failed(noteName, bad)
	}
	number, err := s.notes.add(callID, args.Kind, s.secrets.Text(args.Text), time.Now())
	switch {
	case errors.Is(err, errConflict):
		return s.failed(noteName, &ToolError{Kind: "call_conflict", Message: err.Error(), Hint: "make another call"})
	case errors.Is(err, errFull):
		return s.failed(noteName, &ToolError{Kind: "limit_reached", Message: err.Error(),
			Hint: "say it in your answer"})
	case err != nil:
		s.log.Error("a note of the agent was not recorded", "err", err)
		return s.failed(noteName, &ToolError{Kind: "not_recorded", Message: "the host could not record the note",
			Hint: "say it in your answer"})
	}
	return &mcp.CallToolResult{
		Content:           []mcp.Content{&mcp.TextContent{Text: fmt.Sprintf("Noted (%d).", number)}},
		StructuredContent: map[string]any{"note": number},
	}, nil
}

// readNote reads and cleans what a container sent.
func readNote(p *mcp.CallToolParamsRaw) (args noteArgs, callID string, bad *ToolError) {
	wrong := func(field, message, hint string) *ToolError {
		return &ToolError{Kind: KindInvalidInput, Field: field, Message: message, Hint: hint}
	}
	dec := json.NewDecoder(bytes.NewReader(p.Arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&args); err != nil {
		return args, "", wrong("", "the arguments are not an object with text and kind",
			"send text, and kind if you like")
	}
	if len(args.Text) > maxText {
		return args, "", wrong("text", fmt.Sprintf("the text has %d bytes, and may have %d", len(args.Text), maxText),
			"shorten it")
	}
	if args.Text = cleanText(args.Text); args.Text == "" {
		return args, "", wrong("text", "the text is empty", "say what to note")
	}
	if args.Kind == "" {
		args.Kind = defaultKind
	}
	if !validKind(args.Kind) {
		return args, "", wrong("kind", "the kind is not valid", "use a word of at most 32 small letters, "+
			"digits, '-' and '_'")
	}
	callID, ok := p.Meta[metaCallID].(string)
	if p.Meta[metaCallID] != nil && !ok || len(callID) > maxCallID {
		return args, "", wrong(metaCallID, "the call's id is not a text of at most 256 bytes", "leave it out")
	}
	return args, callID, nil
}

func validKind(kind string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return len(kind) <= maxKind && strings.Trim(kind[:1], letters) == "" &&
		strings.Trim(kind, letters+"0123456789-_") == ""
}

// cleanText drops terminal sequences and invisible characters.
func cleanText(s string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && (visible.Hidden(r) || r == utf8.RuneError) {
			return -1
		}
		return r
	}, s))
}
