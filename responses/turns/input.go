package turns

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"unicode/utf8"

	"holon/responses"
)

// Bounds of what the user may say while a turn runs.
const (
	MaxInputText   = 1 << 20 // bytes of one message
	MaxInputs      = 64      // messages of one turn
	MaxInputsBytes = 4 << 20 // of those that the model was not told yet
)

// NewInput is the body of POST /turns/{id}/input: a message of the user for a
// turn that has begun.
type NewInput struct {
	ID   string `json:"id"` // chosen by the caller, one for each message
	Text string `json:"text"`
}

// Check refuses what no turn takes. The error names the key.
func (n NewInput) Check() error {
	if n.ID == "" {
		return responses.Invalid("id", responses.CodeMissingParameter,
			"id is missing; choose one for each message, so that sending it again is safe")
	}
	if err := responses.CheckID("id", n.ID); err != nil {
		return err
	}
	switch {
	case n.Text == "":
		return responses.Invalid("text", responses.CodeMissingParameter,
			"text is missing; give the message for the model")
	case strings.TrimSpace(n.Text) == "":
		return responses.Invalid("text", responses.CodeMissingParameter,
			"text is blank; give the message for the model")
	case len(n.Text) > MaxInputText:
		return responses.Invalid("text", responses.CodeInvalidValue,
			fmt.Sprintf("the text has %d bytes and may have %d", len(n.Text), MaxInputText))
	case !utf8.ValidString(n.Text):
		return responses.Invalid("text", responses.CodeInvalidValue, "the text must be UTF-8")
	}
	return nil
}

// Input returns the message as it stands when it is accepted.
func (n NewInput) Input() Input {
	sum := sha256.Sum256([]byte(n.Text))
	return Input{ID: n.ID, Digest: hex.EncodeToString(sum[:])}
}

// Input is what became of a message that the user sent while the turn ran.
type Input struct {
	ID       string `json:"id"`
	Digest   string `json:"digest"`   // SHA-256 of the text, in hex
	Inserted bool   `json:"inserted"` // the model was told it; false when the turn is over: it never will be
	Round    int    `json:"round"`    // the first that was told it; 0 while none was
}

// DecodeInput reads the answer of POST /turns/{id}/input. Errors are
// *responses.Error values that name the key.
func DecodeInput(data []byte) (Input, error) {
	var in Input
	if err := decode(data, &in); err != nil {
		return Input{}, err
	}
	return in, in.check("input")
}

// check refuses an entry of turn.json that makes no sense. key is its own.
func (i Input) check(key string) error {
	if err := responses.CheckID(key+".id", i.ID); err != nil {
		return err
	}
	if !isDigest(i.Digest) {
		return invalid(key+".digest", "digest must be 64 lower-case hex digits")
	}
	if i.Round < 0 || i.Inserted != (i.Round > 0) {
		return invalid(key+".round", "round must count from 1 when the message was inserted, and be 0 otherwise")
	}
	return nil
}

// Classes of facts about such messages. They carry our prefix, since the profile
// has none for them.
const (
	InputAccepted = "holon.input.accepted"
	InputInserted = "holon.input.inserted"
)

// Heard is the payload of holon.input.accepted and holon.input.inserted.
type Heard struct {
	InputID string `json:"input_id"`
	Bytes   int    `json:"bytes,omitzero"`   // of the text
	Round   int    `json:"round,omitzero"`   // the first round that was told it
	ItemID  string `json:"item_id,omitzero"` // of the message in the conversation
}
