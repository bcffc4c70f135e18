package model

import (
	"unicode"
	"unicode/utf8"

	"holon/responses"
)

// Counted is what a provider has said so far of what an answer costs.
type Counted struct {
	Usage responses.Usage
	Final bool // no more is added
}

// Count records what the provider counted, for the caller of the transport, if it asked for it.
func (req *Request) Count(usage responses.Usage, final bool) {
	if req.Counted != nil {
		*req.Counted = Counted{usage, final}
	}
}

// meter measures what a model says in one attempt: about how many tokens it was, and how many it was at least.
type meter struct {
	bytes   int64 // of text and arguments
	answer  floor // of messages and calls
	thought floor // of reasoning
	argued  bool  // the open call had deltas
}

// thoughtPart is by how much the text of reasoning may exceed the tokens that it was counted as: providers count what
// the model thought, and show a summary of it.
const thoughtPart = 4

// take counts an event and returns how many bytes of its text fit into limit tokens; a limit of 0 has no bound.
func (m *meter) take(ev Event, limit int) (fits int) {
	fits = len(ev.Text)
	switch {
	case ev.Kind == CallEnd && m.argued, ev.Kind == ReasoningEnd: // what was counted, and its sealed form
		return fits
	case limit == 0:
	case ev.Kind == SummaryDelta, ev.Kind == ReasoningDelta:
		fits = m.thought.fit(ev.Text, (limit-m.answer.tokens)*thoughtPart)
	default:
		fits = m.answer.fit(ev.Text, limit-m.thought.tokens/thoughtPart)
	}
	m.argued = ev.Kind == CallDelta || m.argued && ev.Kind != CallBegin
	m.bytes += int64(fits)
	return fits
}

// output estimates the tokens of what was said.
func (m *meter) output() int64 { return (m.bytes + 3) / 4 }

// Longest tokens of the vocabularies in use, in bytes.
const (
	longestWord  = 48
	longestOther = 128 // spaces, dashes
)

// floor counts how many tokens a text has at least, whatever the tokenizer: none makes one token of two words, and a
// token has a longest form. Pieces of a text may be cut anywhere.
type floor struct {
	tokens int
	word   bool // the text ends within a word
	run    int  // bytes of the last token
}

// fit counts text up to limit tokens and returns how many bytes of it that is.
func (f *floor) fit(text string, limit int) int {
	for i, r := range text {
		next := *f
		next.add(r)
		if next.tokens > limit {
			return i
		}
		*f = next
	}
	return len(text)
}

func (f *floor) add(r rune) {
	size := utf8.RuneLen(r)
	word := unicode.IsLetter(r) || unicode.IsMark(r)
	longest := longestOther
	if f.word && word {
		longest = longestWord
	}
	switch {
	case word && !f.word || f.run+size > longest:
		f.tokens, f.run = f.tokens+1, size
	case word != f.word:
		f.run = size
	default:
		f.run += size
	}
	f.word = word
}
