package scripted

import (
	"cmp"
	"context"
	"errors"
	"math"
	"time"
	"unicode/utf8"

	"holon/agentd/model"
	"holon/internal/scenario"
	"holon/responses"
)

// defaultChunk is the number of characters in a delta unless the scenario says
// otherwise.
const defaultChunk = 32

// errStopped ends a play whose reader stopped.
var errStopped = errors.New("the reader stopped")

// errCut ends a play that reached the request's max_output_tokens.
var errCut = errors.New("the answer has reached its limit")

// player plays one step.
type player struct {
	ctx   context.Context // of the one Stream call that the player serves
	yield func(model.Event, error) bool
	req   model.Request
	pos   *position
	view  fills
	bytes int64 // so far, for the estimated usage
	left  int64 // bytes that may follow
	err   error // the first; nothing is yielded after it
}

// play yields the events of the step in the order of real models: reasoning, text,
// refusal, calls, the end. A failure comes after all output. An answer that is longer
// than the request allows ends there.
func (p *player) play() error {
	s := p.pos.step
	p.left = p.limit()
	p.wait(s.Delay)
	p.reasoning(s)
	p.message(s)
	p.calls(s)
	stop := model.Stop(cmp.Or(s.Stop, string(model.StopEnd)))
	if errors.Is(p.err, errCut) {
		p.err, stop = nil, model.StopMaxTokens
	} else if p.err == nil && fails(s, p.req.Attempt) {
		return failure(s.Error)
	}
	p.emit(model.Event{Kind: model.Done, Stop: stop, Usage: p.usage()})
	return p.err
}

// limit returns how many bytes the model may say: as many as make max_output_tokens
// by the scenario's own count, or by the estimate.
func (p *player) limit() int64 {
	if p.req.MaxOutputTokens == nil {
		return math.MaxInt64
	}
	tokens := int64(max(0, *p.req.MaxOutputTokens))
	switch u := p.pos.step.Usage; {
	case u == nil:
		return max(0, bytesPerToken*tokens-1) // the estimate rounds up
	case u.Output <= tokens:
		return math.MaxInt64
	default:
		return int64(float64(p.length()) * float64(tokens) / float64(u.Output))
	}
}

// length returns how many bytes the whole step says.
func (p *player) length() (n int64) {
	s := p.pos.step
	for _, text := range append([]string{s.Reasoning, s.Text, s.Refusal}, s.Chunks...) {
		n += int64(len(p.view.fill(text)))
	}
	if s.Repeat != nil {
		n += int64(len(s.Repeat.Text)) * int64(s.Repeat.Count)
	}
	for _, c := range s.Calls {
		n += int64(len(p.arguments(c)))
	}
	return n
}

// arguments returns the arguments of a call.
func (p *player) arguments(c scenario.Call) string {
	if c.Raw != nil {
		return p.view.fill(c.JSON)
	}
	return p.view.fillJSON(c.JSON)
}

func (p *player) reasoning(s *scenario.Step) {
	if s.Reasoning == "" {
		return
	}
	p.emit(model.Event{Kind: model.ReasoningBegin})
	p.text(model.SummaryDelta, p.view.fill(s.Reasoning))
	p.emit(model.Event{Kind: model.SummaryPartEnd})
	p.emit(model.Event{Kind: model.ReasoningEnd})
}

func (p *player) message(s *scenario.Step) {
	if s.Text == "" && len(s.Chunks) == 0 && s.Repeat == nil && s.Refusal == "" {
		return
	}
	p.emit(model.Event{Kind: model.MessageBegin})
	p.text(model.TextDelta, p.view.fill(s.Text))
	for i, chunk := range s.Chunks {
		p.delta(model.TextDelta, p.view.fill(chunk), i > 0)
	}
	if s.Repeat != nil {
		p.repeat(s.Repeat)
	}
	p.text(model.RefusalDelta, p.view.fill(s.Refusal))
}

func (p *player) calls(s *scenario.Step) {
	for i, c := range s.Calls {
		args, id := p.arguments(c), p.pos.callID(i)
		p.emit(model.Event{Kind: model.CallBegin, CallID: id, Name: c.Tool})
		p.text(model.CallDelta, args)
		p.emit(model.Event{Kind: model.CallEnd, CallID: id, Name: c.Tool, Text: args})
	}
}

// text yields text in deltas of the step's chunk size.
func (p *player) text(kind model.EventKind, text string) {
	size := cmp.Or(p.pos.step.ChunkSize, defaultChunk)
	for first := true; text != "" && p.err == nil; first = false {
		end := 0
		for n := 0; n < size && end < len(text); n++ {
			_, width := utf8.DecodeRuneInString(text[end:])
			end += width
		}
		p.delta(kind, text[:end], !first)
		text = text[end:]
	}
}

// delta yields one delta, after the gap when it is not the first.
func (p *player) delta(kind model.EventKind, text string, paced bool) {
	if paced {
		p.wait(p.pos.step.Gap)
	}
	p.say(kind, text)
}

// say yields text up to the limit.
func (p *player) say(kind model.EventKind, text string) {
	if p.err != nil {
		return
	}
	part := text
	if int64(len(text)) > p.left {
		part = text[:p.left]
		for part != "" && !utf8.ValidString(part) {
			part = part[:len(part)-1]
		}
	}
	p.bytes, p.left = p.bytes+int64(len(part)), p.left-int64(len(part))
	if part != "" {
		p.emit(model.Event{Kind: kind, Text: part})
	}
	if len(part) < len(text) {
		p.err = cmp.Or(p.err, errCut) // not where the reader stopped
	}
}

// repeat yields the same delta again and again. Each has a fixed time from the
// start, so that the cost of a delta does not slow the stream.
func (p *player) repeat(r *scenario.Repeat) {
	start := time.Now()
	for i := 0; i < r.Count && p.err == nil; i++ {
		if r.Gap > 0 {
			p.wait(time.Until(start.Add(time.Duration(i) * r.Gap)))
		}
		p.say(model.TextDelta, r.Text)
	}
}

func (p *player) emit(ev model.Event) {
	switch {
	case p.err != nil:
	case p.ctx.Err() != nil:
		p.err = model.Cancelled(p.ctx)
	case !p.yield(ev, nil):
		p.err = errStopped
	}
}

func (p *player) wait(d time.Duration) {
	if d <= 0 || p.err != nil {
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-p.ctx.Done():
		p.err = model.Cancelled(p.ctx)
	}
}

// bytesPerToken is for the estimated usage.
const bytesPerToken = 4

// usage returns the scenario's usage, or an estimate of four bytes a token.
func (p *player) usage() responses.Usage {
	if u := p.pos.step.Usage; u != nil {
		said := *u
		if limit := p.req.MaxOutputTokens; limit != nil {
			said.Output = min(u.Output, int64(max(0, *limit)))
			said.Reasoning = min(u.Reasoning, said.Output)
		}
		return counted(said)
	}
	in := int64(len(p.req.Instructions))
	for _, item := range p.req.Input {
		in += size(item)
	}
	return counted(scenario.Usage{Input: in/bytesPerToken + 1, Output: p.bytes/bytesPerToken + 1})
}

// counted converts u, whose total is the sum.
func counted(u scenario.Usage) responses.Usage {
	return responses.Usage{
		InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
		InputTokenDetails:  responses.InputTokenDetails{CachedTokens: u.Cached},
		OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: u.Reasoning},
	}
}

// size returns the number of bytes of an item that a model reads.
func size(item responses.Item) int64 {
	switch item := item.(type) {
	case *responses.Message:
		return int64(len(item.Text()))
	case *responses.ToolCall:
		return int64(len(item.Arguments) + len(item.Output))
	case *responses.FunctionCall:
		return int64(len(item.Arguments))
	case *responses.FunctionCallOutput:
		return int64(len(partsText(item.Output)))
	}
	return 0
}
