package responses

import "fmt"

// This file opens and closes parts and items for the Emitter.

// beginItem closes what is open and announces a new item.
func (e *Emitter) beginItem(open openItem, item Item) error {
	if err := e.EndItem(); err != nil {
		return err
	}
	if err := e.Begin(); err != nil {
		return err
	}
	e.open = open
	return e.item(EventItemAdded, item)
}

// openPart makes sure that a part of the given type is open in a message.
func (e *Emitter) openPart(partType string) error {
	if e.err != nil {
		return e.err
	}
	if e.open.message == nil {
		if err := e.BeginMessage(""); err != nil {
			return err
		}
	}
	return e.nextPart(partType, EventPartAdded)
}

// openReasoningPart makes sure that a part of the given type is open in a
// reasoning item; added is the event that opens such a part.
func (e *Emitter) openReasoningPart(partType, added string) error {
	if e.err != nil {
		return e.err
	}
	if e.open.reasoning == nil {
		if err := e.BeginReasoning(); err != nil {
			return err
		}
	}
	return e.nextPart(partType, added)
}

// nextPart makes sure that a part of the given type is open in the open item.
func (e *Emitter) nextPart(partType, added string) error {
	if e.open.part == partType && !e.open.textDone {
		return nil
	}
	if err := e.endPart(); err != nil {
		return err
	}
	e.open.part = partType
	return e.partEvent(added, Part{Type: partType})
}

// endPart closes the open part of a message or reasoning item, if there is one.
func (e *Emitter) endPart() error {
	if e.err != nil || e.open.part == "" {
		return e.err
	}
	delta, textDone, partDone := EventTextDelta, EventTextDone, EventPartDone
	switch e.open.part {
	case PartRefusal:
		delta, textDone = EventRefusalDelta, EventRefusalDone
	case PartReasoningText:
		delta, textDone = EventReasoningDelta, eventReasoningDone
	case PartSummaryText:
		delta, textDone, partDone = EventReasoningSummaryTextDelta, eventReasoningSummaryTextDone,
			eventReasoningSummaryPartDone
	}
	if err := e.mend(delta); err != nil {
		return err
	}
	text := e.text.String()
	part := Part{Type: e.open.part, Text: text, Annotations: e.open.notes, Logprobs: e.open.probs}
	if e.open.part == PartRefusal {
		part = Part{Type: PartRefusal, Refusal: text}
	}
	if !e.open.textDone {
		if err := e.partText(textDone, text); err != nil {
			return err
		}
	}
	for i, note := range e.open.notes[e.open.noted:] {
		if err := e.annotation(e.open.noted+i, note); err != nil {
			return err
		}
	}
	if err := e.partEvent(partDone, part); err != nil {
		return err
	}
	list := e.parts()
	*list = append(*list, part)
	e.closePart()
	return nil
}

func (e *Emitter) closePart() {
	e.open.part, e.open.notes, e.open.textDone, e.open.noted = "", nil, false, 0
	e.open.probs, e.open.sent, e.open.scrub = nil, 0, nil
	e.text.Reset()
}

// parts returns the list that the open part will join. Its length is the
// part's content or summary index.
func (e *Emitter) parts() *Parts {
	switch {
	case e.open.message != nil:
		return &e.open.message.Content
	case e.open.part == PartReasoningText:
		return &e.open.reasoning.Content
	}
	return &e.open.reasoning.Summary
}

// endItem closes the open item in the given state and adds it to the output.
func (e *Emitter) endItem(status itemStatus) error {
	if e.err != nil {
		return e.err
	}
	if err := e.endPart(); err != nil {
		return err
	}
	var item Item
	switch {
	case e.open.message != nil:
		e.open.message.Status = status
		item = e.open.message
	case e.open.reasoning != nil:
		e.open.reasoning.Status = status
		item = e.open.reasoning
	case e.open.call != nil:
		if err := e.mend(eventArgumentsDelta); err != nil {
			return err
		}
		e.open.call.Status = status
		e.open.call.Arguments = e.text.String()
		e.text.Reset()
		if !e.open.textDone {
			if err := e.argumentsDone(e.open.call); err != nil {
				return err
			}
		}
		item = e.open.call
	case e.open.tool != nil: // only the end of the process leaves one open
		e.open.tool.Status, e.open.tool.Output = ItemIncomplete, InterruptedCall
		item = e.open.tool
	default:
		return nil
	}
	return e.closeItem(item)
}

// closeItem announces that the open item is done and takes it into the output.
func (e *Emitter) closeItem(item Item) error {
	if err := e.item(EventItemDone, item); err != nil {
		return err
	}
	e.open = openItem{}
	e.resp.Output = append(e.resp.Output, item)
	return nil
}

// BeginToolCall closes what is open and announces that a tool of the container
// was called: its id, call id, name and arguments. It is for requests that
// asked to see such calls; others must never get one.
func (e *Emitter) BeginToolCall(c *ToolCall) error {
	begun := &ToolCall{ID: c.ID, CallID: c.CallID, Name: c.Name, Arguments: c.Arguments, Round: c.Round,
		Status: ItemInProgress}
	return e.beginItem(openItem{tool: begun}, begun)
}

// EndToolCall closes the call that BeginToolCall announced, with its result. c
// must not be changed afterwards.
func (e *Emitter) EndToolCall(c *ToolCall) error {
	if e.err != nil {
		return e.err
	}
	if e.open.tool == nil || e.open.tool.ID != c.ID {
		return fmt.Errorf("emit tool call: the call %.64q is not open", c.ID)
	}
	return e.closeItem(c)
}
