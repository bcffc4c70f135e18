package responses

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// This file encodes events for the Emitter. Deltas are put together by hand
// into one reused buffer; everything else happens a few times per item.

func (e *Emitter) head(eventType string) {
	e.buf = append(e.buf[:0], `{"type":"`...)
	e.buf = append(e.buf, eventType...)
	e.buf = append(e.buf, `","sequence_number":`...)
	e.buf = strconv.AppendInt(e.buf, e.seq, 10)
}

// place appends the keys of the item and of its part.
func (e *Emitter) place() {
	id := ""
	switch {
	case e.open.message != nil:
		id = e.open.message.ID
	case e.open.reasoning != nil:
		id = e.open.reasoning.ID
	case e.open.call != nil:
		id = e.open.call.ID
	} // a tool call has no events of its own
	e.buf = append(e.buf, `,"item_id":"`...)
	e.buf = append(e.buf, id...)
	e.buf = append(e.buf, `","output_index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(len(e.resp.Output)), 10)
	switch e.open.part {
	case "":
		return
	case PartSummaryText:
		e.buf = append(e.buf, `,"summary_index":`...)
	default:
		e.buf = append(e.buf, `,"content_index":`...)
	}
	e.buf = strconv.AppendInt(e.buf, int64(len(*e.parts())), 10)
}

// delta emits text and keeps the same text for the end of the part. A character
// that a provider split waits for its rest; invalid UTF-8 is replaced.
func (e *Emitter) delta(eventType, delta string) error {
	if e.err != nil {
		return e.err
	}
	if len(e.open.torn) > 0 || !utf8.ValidString(delta) {
		if delta = e.whole(delta); delta == "" {
			return nil
		}
	}
	if delta = e.scrub(delta); delta == "" {
		return nil
	}
	return e.wholeDelta(eventType, delta)
}

// scrub returns the text that can be sent now: redacted, without an end that may
// be the beginning of a secret.
func (e *Emitter) scrub(delta string) string {
	if e.secrets.Empty() {
		return delta
	}
	if e.open.scrub == nil {
		e.open.scrub = e.secrets.Stream()
	}
	clean := string(e.open.scrub.Next([]byte(delta)))
	if e.open.scrub.Found() { // its tokens spell it
		e.open.probs = e.open.probs[:e.open.sent]
	}
	return clean
}

// whole prepends the bytes that were held back to delta and holds back an
// incomplete character at its end.
func (e *Emitter) whole(delta string) string {
	s := string(e.open.torn) + delta
	end := len(s)
	for i := max(0, end-utf8.UTFMax+1); i < end; i++ {
		if utf8.RuneStart(s[i]) && !utf8.FullRuneInString(s[i:]) {
			end = i
			break
		}
	}
	e.open.torn = append(e.open.torn[:0], s[end:]...)
	return strings.ToValidUTF8(s[:end], "\uFFFD")
}

// mend stops waiting for the rest of a split character or of a secret and sends
// the text that was held back.
func (e *Emitter) mend(eventType string) error {
	text := string(e.open.scrub.Rest())
	switch {
	case len(e.open.torn) > 0:
		text += "\uFFFD"
	case text != "":
	case e.open.sent == len(e.open.probs):
		return nil
	}
	e.open.torn = e.open.torn[:0]
	return e.wholeDelta(eventType, text)
}

func (e *Emitter) wholeDelta(eventType, delta string) error {
	e.text.WriteString(delta)
	e.head(eventType)
	e.place()
	e.buf = append(e.buf, `,"delta":`...)
	e.buf = AppendString(e.buf, delta)
	if eventType == EventTextDelta {
		if e.open.scrub.Holds() { // the tokens of held text are held too
			e.buf = append(e.buf, `,"logprobs":[]`...)
			return e.emit(eventType)
		}
		return e.emitLogprobs(eventType, e.open.probs[e.open.sent:])
	}
	return e.emit(eventType)
}

// emitLogprobs ends an event of output_text. Tokens count as sent even when the
// sink fails, which ends the stream.
func (e *Emitter) emitLogprobs(eventType string, probs []LogProb) error {
	e.open.sent = len(e.open.probs)
	if len(probs) == 0 {
		e.buf = append(e.buf, `,"logprobs":[]`...)
		return e.emit(eventType)
	}
	return e.emitWith(eventType, `,"logprobs":`, probs)
}

func (e *Emitter) partText(eventType, text string) error {
	e.head(eventType)
	e.place()
	key := `,"text":`
	if eventType == EventRefusalDone {
		key = `,"refusal":`
	}
	e.buf = append(e.buf, key...)
	e.buf = AppendString(e.buf, text)
	if eventType == EventTextDone {
		return e.emitLogprobs(eventType, e.open.probs)
	}
	return e.emit(eventType)
}

func (e *Emitter) argumentsDone(c *FunctionCall) error {
	e.head(EventArgumentsDone)
	e.place()
	e.buf = append(e.buf, `,"name":`...)
	e.buf = AppendString(e.buf, c.Name)
	e.buf = append(e.buf, `,"arguments":`...)
	e.buf = AppendString(e.buf, c.Arguments)
	return e.emit(EventArgumentsDone)
}

func (e *Emitter) partEvent(eventType string, part Part) error {
	if e.err != nil {
		return e.err
	}
	e.head(eventType)
	e.place()
	return e.emitWith(eventType, `,"part":`, part)
}

func (e *Emitter) annotation(index int, a Annotation) error {
	e.head(EventAnnotationAdded)
	e.place()
	e.buf = append(e.buf, `,"annotation_index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(index), 10)
	return e.emitWith(EventAnnotationAdded, `,"annotation":`, a)
}

func (e *Emitter) item(eventType string, item Item) error {
	if e.err != nil {
		return e.err
	}
	e.head(eventType)
	e.buf = append(e.buf, `,"output_index":`...)
	e.buf = strconv.AppendInt(e.buf, int64(len(e.resp.Output)), 10)
	return e.emitWith(eventType, `,"item":`, item)
}

func (e *Emitter) snapshot(eventType string) error {
	if e.err != nil {
		return e.err
	}
	e.head(eventType)
	return e.emitWith(eventType, `,"response":`, e.resp)
}

func (e *Emitter) emitWith(eventType, key string, value any) error {
	buf, err := appendJSON(append(e.buf, key...), value)
	if err != nil {
		e.err = fmt.Errorf("encode %s: %w", eventType, err)
		return e.err
	}
	e.buf = buf
	return e.emit(eventType)
}

// emit hands the finished event over. The number is used up only when the
// sink took the event, so the numbers of a stream have no gaps.
func (e *Emitter) emit(eventType string) error {
	e.buf = append(e.buf, '}')
	if err := e.sink(eventType, e.buf); err != nil {
		e.err = err
		return err
	}
	e.seq++
	return nil
}
