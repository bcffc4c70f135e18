package hosttools

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"holon/internal/redact"
	"holon/internal/visible"
)

// noteName is the tool that attaches a note to the run's record.
const noteName = "turn_note"

// Bounds of a call of turn_note, in bytes.
const (
	maxText = 4 << 10
	maxKind = 32
)

const defaultKind = "note"

// noteArgs are the arguments of turn_note.
type noteArgs struct {
	Text string `json:"text" jsonschema:"what to note, in plain words, at most 4096 bytes"`
	Kind string `json:"kind,omitempty" jsonschema:"what sort of note it is, for example decision, todo or risk; default note"`
}

// tool is turn_note. secrets are taken out of what is noted.
func (n *notes) tool(secrets *redact.Set) Tool {
	return Tool{
		Name: noteName,
		Description: "Attaches a short note to the record of this run, for the person who started it: a decision " +
			"and its reason, something that is left to do, a risk. " +
			"It is kept even if the run fails later. It does not replace your answer; say what you found in your answer too.",
		Schema: SchemaOf[noteArgs](nil),
		Call: func(_ context.Context, c Call) (Result, error) {
			args, err := readNote(c.Arguments)
			if err != nil {
				return Result{}, err
			}
			number, err := n.add(c.ID, args.Kind, secrets.Text(args.Text), time.Now())
			switch {
			case errors.Is(err, errConflict):
				return Result{}, &ToolError{Kind: "call_conflict", Message: err.Error(), Hint: "make another call"}
			case errors.Is(err, errFull):
				return Result{}, &ToolError{Kind: "limit_reached", Message: err.Error(), Hint: "say it in your answer"}
			case err != nil:
				return Result{}, err
			}
			return Result{Text: fmt.Sprintf("Noted (%d).", number), Structured: fmt.Appendf(nil, `{"note":%d}`, number)}, nil
		},
	}
}

// readNote reads and cleans what a container sent.
func readNote(arguments json.RawMessage) (args noteArgs, err error) {
	wrong := func(field, message, hint string) (noteArgs, error) {
		return args, &ToolError{Kind: KindInvalidInput, Field: field, Message: message, Hint: hint}
	}
	dec := json.NewDecoder(bytes.NewReader(arguments))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&args); err != nil {
		return wrong("", "the arguments are not an object with text and kind", "send text, and kind if you like")
	}
	if len(args.Text) > maxText {
		return wrong("text", fmt.Sprintf("the text has %d bytes, and may have %d", len(args.Text), maxText), "shorten it")
	}
	if args.Text = strings.TrimSpace(visible.Text(args.Text)); args.Text == "" {
		return wrong("text", "the text is empty", "say what to note")
	}
	if args.Kind == "" {
		args.Kind = defaultKind
	}
	if !validKind(args.Kind) {
		return wrong("kind", "the kind is not valid", "use a word of at most 32 small letters, digits, '-' and '_'")
	}
	return args, nil
}

func validKind(kind string) bool {
	const letters = "abcdefghijklmnopqrstuvwxyz"
	return len(kind) <= maxKind && strings.Trim(kind[:1], letters) == "" &&
		strings.Trim(kind, letters+"0123456789-_") == ""
}
