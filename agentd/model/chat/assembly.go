package chat

import (
	"encoding/json"
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
	newest  *item         // that began
	last    *item         // the open message or reasoning that deltas go to, nil for none
	calls   []*item       // all calls, in order of their beginning
	byIndex map[int]*item // the latest call with an index of the provider's
	ids     endpoint.CallIDs
	details int // bytes
	argued  int // bytes
	said    bool
	text    strings.Builder // of all messages, for a whole one behind them
	finish  string          // why the model stopped, once it said so
	usage   responses.Usage
}

var (
	_ endpoint.Ender       = (*assembly)(nil)
	_ endpoint.WholeReader = (*assembly)(nil)
)

type item struct {
	endpoint.QueuedItem
	start    model.Event     // how it begins
	id       string          // call: the provider's
	args     strings.Builder // call: received so far
	begun    bool            // call: it has a name
	key      string          // reasoning: the key of its text
	thoughts []json.RawMessage
	extra    json.RawMessage // reasoning: sent back with the first call
}

func newAssembly(provider string, yield func(model.Event) bool) *assembly {
	return &assembly{provider: provider, queue: endpoint.NewItemQueue(yield), byIndex: make(map[int]*item),
		ids: make(endpoint.CallIDs)}
}

// Take implements endpoint.Answer: it handles one chunk. A chunk with the usage may
// follow the one with the reason to stop, so a stream is read to its end.
func (a *assembly) Take(data []byte) (last bool, err error) { return false, a.take(data) }

// Whole implements endpoint.WholeReader. Some servers do not stream what they are
// asked to.
func (a *assembly) Whole(data []byte) error {
	if err := a.take(data); err != nil {
		return err
	}
	if !gjson.GetBytes(data, "choices").IsArray() {
		return endpoint.Malformed("the provider's answer has no choices")
	}
	return a.End(true)
}

func (a *assembly) take(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return endpoint.Malformed("the provider's chunk can't be read: %v", endpoint.Unreadable(err))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return endpoint.EventError(endpoint.DecodeFailure(data))
	}
	if a.requestID == "" {
		a.requestID = c.ID
	}
	if c.Usage != nil {
		a.usage = c.Usage.usage()
	} else if c.Groq != nil && c.Groq.Usage != nil {
		a.usage = c.Groq.Usage.usage()
	}
	a.asked.Count(a.usage, false)
	for i := range c.Choices {
		if c.Choices[i].Index != 0 {
			continue // one was asked for
		}
		if err := a.choice(&c.Choices[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) choice(c *choice) error {
	if c.Usage != nil {
		a.usage = c.Usage.usage()
		a.asked.Count(a.usage, false)
	}
	if a.finish == "" { // everything after the end is ignored
		if err := a.content(c); err != nil {
			return err
		}
	}
	if c.FinishReason != "" && a.finish == "" {
		a.finish = c.FinishReason
	}
	return nil
}

// content takes what a choice says, in pieces or as a whole.
func (a *assembly) content(c *choice) error {
	if c.Delta != nil {
		if err := a.delta(c.Delta, c); err != nil {
			return err
		}
	}
	switch {
	case c.Message == nil:
		return nil
	case a.said:
		return a.rest(c.Message)
	}
	return a.delta(c.Message, c)
}

// rest passes on what a whole message has beyond the deltas before it.
func (a *assembly) rest(m *delta) error {
	whole, _ := contentOf(m.Content)
	tail, extends := strings.CutPrefix(whole, a.text.String())
	if !extends {
		tail = "" // what was streamed stays
	}
	if err := a.say(model.TextDelta, tail, nil); err != nil || len(a.calls) > 0 {
		return err
	}
	for i := range m.ToolCalls {
		if err := a.call(&m.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

func (a *assembly) delta(d *delta, c *choice) error {
	text, thinking := contentOf(d.Content)
	if err := a.thought(d, thinking); err != nil {
		return err
	}
	if err := a.say(model.TextDelta, text, c.logprobs()); err != nil {
		return err
	}
	if err := a.say(model.RefusalDelta, d.Refusal, nil); err != nil {
		return err
	}
	for i := range d.Annotations {
		if note := d.Annotations[i].URLCitation; note != nil && d.Annotations[i].Type == "url_citation" &&
			a.last != nil && a.last.Kind() == model.MessageBegin {
			note.Type = d.Annotations[i].Type
			if err := a.queue.Push(&a.last.QueuedItem,
				model.Event{Kind: model.AnnotationAdded, Annotation: note}); err != nil {
				return err
			}
		}
	}
	for i := range d.ToolCalls {
		if err := a.call(&d.ToolCalls[i]); err != nil {
			return err
		}
	}
	return nil
}

// thought passes reasoning on as a summary, the form that every client shows.
func (a *assembly) thought(d *delta, thinking string) error {
	key, text := "", thinking
	if d.ReasoningContent != "" {
		key, text = keyContent, d.ReasoningContent
	} else if s, _ := textOf(d.Reasoning); s != "" {
		key, text = keyReasoning, s
	}
	if text == "" && len(d.ReasoningDetails) == 0 {
		return nil
	}
	it, err := a.current(model.ReasoningBegin)
	if err != nil {
		return err
	}
	if key != "" {
		it.key = key
	}
	for _, detail := range d.ReasoningDetails {
		if a.details += len(detail); a.details > maxDetails {
			return endpoint.Malformed("the provider's reasoning has more than %d MiB of details",
				maxDetails>>20)
		}
		it.thoughts = append(it.thoughts, detail)
	}
	if text == "" {
		return nil
	}
	return a.queue.Push(&it.QueuedItem, model.Event{Kind: model.SummaryDelta, Text: text})
}

func (a *assembly) say(kind model.EventKind, text string, probs []responses.LogProb) error {
	if text == "" {
		return nil
	}
	it, err := a.current(model.MessageBegin)
	if err != nil {
		return err
	}
	if kind == model.TextDelta {
		a.text.WriteString(text)
	}
	return a.queue.Push(&it.QueuedItem, model.Event{Kind: kind, Text: text, Logprobs: probs})
}

// current returns the open message or reasoning item, and begins one if necessary.
func (a *assembly) current(kind model.EventKind) (*item, error) {
	if a.last != nil && a.last.Kind() == kind {
		return a.last, nil
	}
	if err := a.close(); err != nil {
		return nil, err
	}
	it := &item{start: model.Event{Kind: kind}}
	a.last = it
	return it, a.begin(it)
}

// close ends the open message or reasoning.
func (a *assembly) close() error {
	it := a.last
	if it == nil {
		return nil
	}
	a.last = nil
	if it.Kind() == model.ReasoningBegin {
		opaque := seal{it.key, it.thoughts, it.extra}.encode()
		if opaque != "" {
			opaque = model.Seal(a.provider, opaque)
		}
		if err := a.queue.Push(&it.QueuedItem, model.Event{Kind: model.ReasoningEnd, Text: opaque}); err != nil {
			return err
		}
	}
	return a.queue.End(&it.QueuedItem)
}

// begin opens an item, after those that are open.
func (a *assembly) begin(it *item) error {
	if a.items++; a.items > maxItems {
		return endpoint.Malformed("the provider's answer has more than %d items", maxItems)
	}
	a.said = true
	a.newest = it
	return a.queue.Begin(&it.QueuedItem, it.start)
}
