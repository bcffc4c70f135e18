package record

// Writing is a message that a model writes: not an event yet. It comes behind all events that were recorded before it
// was shown, and the model.delta of its ItemID have all its text.
type Writing struct {
	TurnID    string
	MessageID string // that the turn is for
	ItemID    string // of the message in the response; "": none is written
	Text      []byte // as far as it is written, in whole characters, without known secrets; it only grows
}
