package chat

import (
	"encoding/json"
	"errors"
	"strings"

	"github.com/tidwall/gjson"

	"holon/agentd/model"
	"holon/agentd/model/endpoint"
	"holon/responses"
)

// Bounds of one answer, far above the output of models.
const (
	maxItems     = endpoint.MaxItems
	maxArguments = endpoint.MaxArguments // of all calls
	maxDetails   = 8 << 20               // bytes of reasoning details
)

// assembly turns chunks into events. Chunks have no items: text, reasoning and
// calls arrive as deltas of one message, in any mixture. Each change of kind
// begins an item, and a call stays open until the answer ends, since more of it
// may arrive at any time.
type assembly struct {
	provider  string
	asked     model.Request
	requestID string

	queue   *endpoint.ItemQueue
	items   int
	newest  *item                    // that began
	last    *item                    // the open message or reasoning that deltas go to, nil for none
	calls   []*item                  // all calls, in order of their beginning
	byIndex map[endpoint.Index]*item // the latest call with an index of the provider's
	ids     endpoint.CallIDs
	details int // bytes
	argued  int // bytes
	emitted bool
	text    strings.Builder // of all messages, for a whole one behind them
	finish  string          // why the model stopped, once it said so
	usage   responses.Usage
}

type item struct {
	endpoint.QueuedItem
	start    model.Event        // how it begins
	halves   model.Joiner       // of its text
	id       string             // call: the provider's
	args     endpoint.Arguments // call: received so far
	begun    bool               // call: it has a name
	key      string             // reasoning: the key of its text
	thoughts []json.RawMessage
	extra    json.RawMessage // reasoning: sent back with the first call
}

func newAssembly(provider string, yield func(model.Event) bool) *assembly {
	return &assembly{provider: provider, queue: endpoint.NewItemQueue(yield), byIndex: make(map[endpoint.Index]*item),
		ids: make(endpoint.CallIDs)}
}

// Take implements endpoint.Answer: it handles one chunk. A chunk with the usage may
// follow the one with the reason to stop, so a stream is read to its end.
func (a *assembly) Take(data []byte) (last bool, err error) { return false, a.take(data) }

// Whole implements endpoint.Answer. Some servers do not stream what they are
// asked to.
func (a *assembly) Whole(data []byte) error {
	if err := a.take(data); err != nil {
		return err
	}
	return a.End(true)
}

func (a *assembly) take(data []byte) error {
	var c chunk
	err := json.Unmarshal(data, &c)
	if _, odd := errors.AsType[*json.UnmarshalTypeError](err); err != nil && !odd {
		return endpoint.Malformed("the provider's chunk can't be read: %v", endpoint.Unreadable(err))
	}
	if endpoint.Reports(data, "error") || !gjson.GetBytes(data, "choices").IsArray() && c.Usage == nil {
		return endpoint.Odd(data)
	}
	if a.requestID == "" {
		a.requestID = string(c.ID)
	}
	if c.Usage != nil {
		a.usage = c.Usage.usage()
	} else if c.Groq != nil && c.Groq.Usage != nil {
		a.usage = c.Groq.Usage.usage()
	}
	a.asked.Count(a.usage, false)
	for i := range c.Choices {
		if c.Choices[i].Index == 0 { // one was asked for
			a.choice(&c.Choices[i])
		}
	}
	return a.queue.Err()
}

func (a *assembly) choice(c *choice) {
	if c.Usage != nil {
		a.usage = c.Usage.usage()
		a.asked.Count(a.usage, false)
	}
	if a.finish == "" { // everything after the end is ignored
		a.content(c)
		a.finish = string(c.FinishReason)
	}
}

// content takes what a choice says, in pieces or as a whole.
func (a *assembly) content(c *choice) {
	if c.Delta != nil {
		a.delta(c.Delta, c)
	}
	switch {
	case c.Message == nil:
	case a.emitted:
		a.rest(c.Message)
	default:
		a.delta(c.Message, c)
	}
}

// rest passes on what a whole message has beyond the deltas before it.
func (a *assembly) rest(m *delta) {
	whole, _ := contentOf(m.Content)
	tail, extends := strings.CutPrefix(whole.Text(), a.text.String())
	if extends { // else what was streamed stays
		a.pass(model.TextDelta, tail, nil)
	}
	if len(a.calls) > 0 {
		return
	}
	for i := range m.ToolCalls {
		a.call(&m.ToolCalls[i])
	}
}

func (a *assembly) delta(d *delta, c *choice) {
	text, thinking := contentOf(d.Content)
	a.thought(d, thinking)
	a.say(model.TextDelta, text, c.logprobs())
	a.say(model.RefusalDelta, d.Refusal, nil)
	for i := range d.Annotations {
		if note := d.Annotations[i].URLCitation; note != nil && d.Annotations[i].Type == "url_citation" &&
			a.last != nil && a.last.Kind() == model.MessageBegin {
			note.Type = d.Annotations[i].Type
			a.queue.Push(&a.last.QueuedItem, model.Event{Kind: model.AnnotationAdded, Annotation: note})
		}
	}
	for i := range d.ToolCalls {
		a.call(&d.ToolCalls[i])
	}
}

// thought passes reasoning on as a summary, the form that every client shows.
func (a *assembly) thought(d *delta, thinking model.WireText) {
	key, text := "", thinking
	if s := textOf(d.ReasoningContent); s != "" {
		key, text = keyContent, s
	} else if s := textOf(d.Reasoning); s != "" {
		key, text = keyReasoning, s
	}
	if text == "" && len(d.ReasoningDetails) == 0 {
		return
	}
	it := a.current(model.ReasoningBegin)
	if key != "" {
		it.key = key
	}
	for _, detail := range d.ReasoningDetails {
		if a.detail(detail) {
			it.thoughts = append(it.thoughts, detail)
		}
	}
	a.pass(model.SummaryDelta, it.halves.Join(text), nil)
}

// detail reports whether there is room for a detail of reasoning.
func (a *assembly) detail(raw json.RawMessage) bool {
	if a.details += len(raw); a.details > maxDetails {
		a.queue.Fail(endpoint.Malformed("the provider's reasoning has more than %d MiB of details", maxDetails>>20))
		return false
	}
	return true
}

func (a *assembly) say(kind model.EventKind, text model.WireText, probs []responses.LogProb) {
	if text != "" {
		a.pass(kind, a.current(model.MessageBegin).halves.Join(text), probs) // which is nothing for half a character
	}
}

// pass passes text of the open item on.
func (a *assembly) pass(kind model.EventKind, text string, probs []responses.LogProb) {
	if text == "" {
		return
	}
	begin := model.MessageBegin
	if kind == model.SummaryDelta {
		begin = model.ReasoningBegin
	}
	it := a.current(begin)
	if kind == model.TextDelta {
		a.text.WriteString(text)
	}
	a.queue.Push(&it.QueuedItem, model.Event{Kind: kind, Text: text, Logprobs: probs})
}

// current returns the open message or reasoning item, and begins one if necessary.
func (a *assembly) current(kind model.EventKind) *item {
	if a.last == nil || a.last.Kind() != kind {
		a.close()
		a.last = &item{start: model.Event{Kind: kind}}
		a.begin(a.last)
	}
	return a.last
}

// close ends the open message or reasoning.
func (a *assembly) close() {
	it := a.last
	if it == nil {
		return
	}
	kind := model.TextDelta
	if it.Kind() == model.ReasoningBegin {
		kind = model.SummaryDelta
	}
	a.pass(kind, it.halves.End(), nil)
	a.last = nil
	if it.Kind() == model.ReasoningBegin {
		opaque := seal{it.key, it.thoughts, it.extra}.encode()
		if opaque != "" {
			opaque = model.Seal(a.provider, opaque)
		}
		a.queue.Push(&it.QueuedItem, model.Event{Kind: model.ReasoningEnd, Text: opaque})
	}
	a.queue.End(&it.QueuedItem)
}

// begin opens an item, after those that are open.
func (a *assembly) begin(it *item) {
	if a.items++; a.items > maxItems {
		a.queue.Fail(endpoint.Malformed("the provider's answer has more than %d items", maxItems))
	}
	a.emitted = true
	a.newest = it
	a.queue.Begin(&it.QueuedItem, it.start)
}
