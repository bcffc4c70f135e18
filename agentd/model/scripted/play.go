package scripted

import (
	"context"
	"errors"
	"time"
	"unicode/utf8"

	"holon/agentd/model"
	"holon/responses"
)

// defaultChunk is the number of characters in a delta unless the scenario says
// otherwise.
const defaultChunk = 32

// errStopped ends a play whose reader stopped.
var errStopped = errors.New("the reader stopped")

// player plays one step.
type player struct {
	ctx   context.Context // of the one Stream call that the player serves
	yield func(model.Event, error) bool
	req   model.Request
	pos   *position
	view  fills
	bytes int64 // said so far, for the estimated usage
}

// play yields the events of the step in the order of real models: reasoning, text,
// refusal, calls, the end. A failure comes after all output.
func (p *player) play() error {
	s := p.pos.step
	if err := p.wait(s.Delay); err != nil {
		return err
	}
	for _, part := range []func(*step) error{p.reasoning, p.message, p.calls} {
		if err := part(s); err != nil {
			return err
		}
	}
	if s.fails(p.req.Attempt) {
		return s.Error.error()
	}
	done := model.Event{Kind: model.Done, Stop: model.Stop(s.Stop), Usage: p.usage()}
	if done.Stop == "" {
		done.Stop = model.StopEnd
	}
	return p.emit(done)
}

func (p *player) reasoning(s *step) error {
	if s.Reasoning == "" {
		return nil
	}
	if err := p.emit(model.Event{Kind: model.ReasoningBegin}); err != nil {
		return err
	}
	if err := p.text(model.SummaryDelta, p.view.fill(s.Reasoning)); err != nil {
		return err
	}
	if err := p.emit(model.Event{Kind: model.SummaryPartEnd}); err != nil {
		return err
	}
	return p.emit(model.Event{Kind: model.ReasoningEnd})
}

func (p *player) message(s *step) error {
	if s.Text == "" && len(s.Chunks) == 0 && s.Repeat == nil && s.Refusal == "" {
		return nil
	}
	if err := p.emit(model.Event{Kind: model.MessageBegin}); err != nil {
		return err
	}
	if err := p.text(model.TextDelta, p.view.fill(s.Text)); err != nil {
		return err
	}
	for i, chunk := range s.Chunks {
		if err := p.delta(model.TextDelta, p.view.fill(chunk), i > 0); err != nil {
			return err
		}
	}
	if s.Repeat != nil {
		if err := p.repeat(s.Repeat); err != nil {
			return err
		}
	}
	return p.text(model.RefusalDelta, p.view.fill(s.Refusal))
}

func (p *player) calls(s *step) error {
	for i, c := range s.Calls {
		args := p.view.fillJSON(c.json)
		if c.Raw != nil {
			args = p.view.fill(c.json)
		}
		id := p.pos.callID(i)
		if err := p.emit(model.Event{Kind: model.CallBegin, CallID: id, Name: c.Tool}); err != nil {
			return err
		}
		if err := p.text(model.CallDelta, args); err != nil {
			return err
		}
		if err := p.emit(model.Event{Kind: model.CallEnd, CallID: id, Name: c.Tool, Text: args}); err != nil {
			return err
		}
	}
	return nil
}

// text yields text in deltas of the step's chunk size.
func (p *player) text(kind model.EventKind, text string) error {
	size := p.pos.step.ChunkSize
	if size == 0 {
		size = defaultChunk
	}
	for first := true; text != ""; first = false {
		end := 0
		for n := 0; n < size && end < len(text); n++ {
			_, width := utf8.DecodeRuneInString(text[end:])
			end += width
		}
		if err := p.delta(kind, text[:end], !first); err != nil {
			return err
		}
		text = text[end:]
	}
	return nil
}

// delta yields one delta, after the gap when it is not the first.
func (p *player) delta(kind model.EventKind, text string, paced bool) error {
	if gap := p.pos.step.Gap; paced && gap > 0 {
		if err := p.wait(gap); err != nil {
			return err
		}
	}
	p.bytes += int64(len(text))
	return p.emit(model.Event{Kind: kind, Text: text})
}

// repeat yields the same delta again and again. Each has a fixed time from the
// start, so that the cost of a delta does not slow the stream.
func (p *player) repeat(r *repeat) error {
	p.bytes += int64(len(r.Text)) * int64(r.Count)
	start := time.Now()
	for i := range r.Count {
		if r.Gap > 0 {
			if err := p.wait(time.Until(start.Add(time.Duration(i) * r.Gap))); err != nil {
				return err
			}
		}
		if err := p.emit(model.Event{Kind: model.TextDelta, Text: r.Text}); err != nil {
			return err
		}
	}
	return nil
}

func (p *player) emit(ev model.Event) error {
	if p.ctx.Err() != nil {
		return model.Cancelled(p.ctx)
	}
	if !p.yield(ev, nil) {
		return errStopped
	}
	return nil
}

func (p *player) wait(d time.Duration) error {
	if d <= 0 {
		return nil
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-p.ctx.Done():
		return model.Cancelled(p.ctx)
	}
}

// usage returns the scenario's usage, or an estimate of four bytes a token.
func (p *player) usage() responses.Usage {
	if u := p.pos.step.Usage; u != nil {
		return u.responses()
	}
	in := int64(len(p.req.Instructions))
	for _, item := range p.req.Input {
		in += size(item)
	}
	return usage{Input: in/4 + 1, Output: p.bytes/4 + 1}.responses()
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
