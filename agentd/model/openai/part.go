package openai

import (
	"slices"
	"strings"

	sdk "github.com/openai/openai-go/v3/responses"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// part is one text of an item: a part of a message, of a summary or of a thought, or
// the arguments of a call.
type part struct {
	place
	passed strings.Builder // what was passed on
	joiner model.Joiner
	probs  []responses.LogProb // of a piece that the joiner holds
}

// delta passes a piece of an item on. Pieces of items that are ignored, have ended, or
// are of another kind are dropped.
func (a *assembly) delta(it *item, t text) {
	if !it.takes(t) || t.piece == "" {
		return
	}
	p := a.openPart(it, t.place)
	if it.kind == call && it.opening == "" {
		a.pass(it, p, it.args.Add(t.piece), nil)
		return
	}
	p.probs = append(p.probs, t.probs...)
	a.say(it, p, p.joiner.Join(t.piece)) // which is nothing for half a character
}

// takes reports whether a text is of an item. Of a thought that comes raw and summed up, the first form counts.
func (it *item) takes(t text) bool {
	return it != nil && !it.Ended() && it.kind == kindOf(t.kind) &&
		(it.kind != reasoning || len(it.parts) == 0 || it.parts[0].kind == t.kind)
}

// whole takes the whole text of a part, or of a call's arguments, which may be
// repeated under another place.
func (a *assembly) whole(it *item, t text) {
	if !it.takes(t) || t.whole == "" {
		return
	}
	i := slices.IndexFunc(it.parts, func(p *part) bool { return p.place == t.place })
	if n := len(it.parts); i < 0 && n > 0 && it.parts[n-1].passed.String() == t.whole {
		return
	}
	a.complete(it, i, t)
}

// content takes a whole item. Its texts are matched by kind and order, since servers
// count the parts of a stream differently.
func (a *assembly) content(it *item, w *sdk.ResponseOutputItemUnion) {
	nth := make(map[model.EventKind]int)
	for _, t := range textsOf(w) {
		if !it.takes(t) {
			continue
		}
		skip := nth[t.kind]
		nth[t.kind]++
		a.complete(it, slices.IndexFunc(it.parts, func(p *part) bool {
			if p.kind == t.kind {
				skip--
			}
			return skip < 0
		}), t)
	}
}

// complete passes on what the deltas of part i did not contain of its whole text; i is -1 for a part without deltas.
// What was passed on stays, even if the whole differs, and so does a part that another follows.
func (a *assembly) complete(it *item, i int, t text) {
	if i < 0 {
		a.openPart(it, t.place)
		i = len(it.parts) - 1
	}
	p, whole := it.parts[i], t.whole
	if it.opening != "" {
		whole = it.opening + escaped(whole)
	}
	rest, extends := strings.CutPrefix(whole, p.passed.String())
	if !extends || rest == "" || i < len(it.parts)-1 {
		return
	}
	it.args = endpoint.Arguments{}
	p.joiner, p.probs = model.Joiner{}, t.probs // what it held is part of the whole
	a.pass(it, p, rest, p.probs)
}

// openPart returns the open part if it has that place, and ends it for a new one
// otherwise: not every server sends the ends of parts.
func (a *assembly) openPart(it *item, at place) *part {
	if n := len(it.parts); n > 0 && it.parts[n-1].place == at {
		return it.parts[n-1]
	}
	a.endPart(it)
	if len(it.parts) > 0 && it.kind == message {
		a.queue.Push(&it.QueuedItem, model.Event{Kind: model.PartEnd})
	}
	p := &part{place: at}
	it.parts = append(it.parts, p)
	if it.opening != "" {
		a.pass(it, p, it.opening, nil)
	}
	return p
}

// endPart ends the open part.
func (a *assembly) endPart(it *item) {
	if len(it.parts) == 0 {
		return
	}
	p := it.parts[len(it.parts)-1]
	a.say(it, p, p.joiner.End())
	if it.kind == reasoning {
		a.queue.Push(&it.QueuedItem, model.Event{Kind: model.SummaryPartEnd})
	}
}

// say passes on text of the model's.
func (a *assembly) say(it *item, p *part, text string) {
	if text == "" {
		return
	}
	probs := p.probs
	p.probs = nil
	if it.opening != "" {
		text = escaped(text)
	}
	a.pass(it, p, text, probs)
}

func (a *assembly) pass(it *item, p *part, text string, probs []responses.LogProb) {
	if text == "" {
		return
	}
	if it.kind == call && p.passed.Len()+len(text) > endpoint.MaxArguments {
		a.queue.Fail(endpoint.Malformed("the provider's call has more than %d MiB of arguments",
			endpoint.MaxArguments>>20))
		return
	}
	p.passed.WriteString(text)
	kind := p.kind
	if kind == model.ReasoningDelta {
		kind = model.SummaryDelta // the form of thoughts that every client shows
	}
	a.queue.Push(&it.QueuedItem, model.Event{Kind: kind, Text: text, Logprobs: probs})
}
