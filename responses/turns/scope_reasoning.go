package turns

// Classes of the facts about reasoning. None of them has its text.
const (
	ReasoningDelta   = "reasoning.delta"
	ReasoningSummary = "reasoning.summary"
)

// Withheld is the payload of reasoning.delta: the reasoning of an item that no client sees, all in one.
type Withheld struct {
	Redacted       bool `json:"redacted"`                 // always
	OutputChars    int  `json:"output_chars,omitzero"`    // of raw reasoning
	EncryptedBytes int  `json:"encrypted_bytes,omitzero"` // of its sealed form
}

// ReasoningWithheld says that the given item of a model request holds reasoning that no client sees.
func (s Scope) ReasoningWithheld(requestID, itemID string, p Withheld) RuntimeEvent {
	p.Redacted = true
	e := s.ofRequest(ReasoningDelta, "", requestID, p)
	e.StepID = itemID
	return e
}

// Summarized is the payload of reasoning.summary: one part of the summary of an item.
type Summarized struct {
	TextRef     string `json:"text_ref"` // the item of the response, which has the text
	PartIndex   int    `json:"part_index"`
	OutputChars int    `json:"output_chars"`
}

// ReasoningSummarized says that the given item of a model request has a part of a summary.
func (s Scope) ReasoningSummarized(requestID, itemID string, p Summarized) RuntimeEvent {
	p.TextRef = itemID
	e := s.ofRequest(ReasoningSummary, "", requestID, p)
	e.StepID = itemID
	return e
}
