package scripted

import (
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
	bytes int64 // said so far, for the estimated usage
	room  int64 // bytes that it may say
}

// play yields the events of the step in the order of real models: reasoning, text,
// refusal, calls, the end. A failure comes after all output. An answer that is longer
// than the request allows ends there.
func (p *player) play() error {
	s := p.pos.step
	p.room = p.limit()
	if err := p.wait(s.Delay); err != nil {
		return err
	}
	for _, part := range []func(*scenario.Step) error{p.reasoning, p.message, p.calls} {
		err := part(s)
		if errors.Is(err, errCut) {
			return p.emit(model.Event{Kind: model.Done, Stop: model.StopMaxTokens, Usage: p.usage()})
		}
		if err != nil {
			return err
		}
	}
	if fails(s, p.req.Attempt) {
		return failure(s.Error)
	}
	done := model.Event{Kind: model.Done, Stop: model.Stop(s.Stop), Usage: p.usage()}
	if done.Stop == "" {
		done.Stop = model.StopEnd
	}
	return p.emit(done)
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

func (p *player) reasoning(s *scenario.Step) error {
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

func (p *player) message(s *scenario.Step) error {
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

func (p *player) calls(s *scenario.Step) error {
	for i, c := range s.Calls {
		args, id := p.arguments(c), p.pos.callID(i)
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
	return p.say(kind, text)
}

// say yields text up to the limit.
func (p *player) say(kind model.EventKind, text string) error {
	left, whole := p.room-p.bytes, len(text)
	if int64(whole) > left {
		text = text[:left]
		for text != "" && !utf8.ValidString(text) {
			text = text[:len(text)-1]
		}
	}
	p.bytes += int64(len(text))
	if text != "" {
		if err := p.emit(model.Event{Kind: kind, Text: text}); err != nil {
			return err
		}
	}
	if len(text) < whole {
		return errCut
	}
	return nil
}

// repeat yields the same delta again and again. Each has a fixed time from the
// start, so that the cost of a delta does not slow the stream.
func (p *player) repeat(r *scenario.Repeat) error {
	start := time.Now()
	for i := range r.Count {
		if r.Gap > 0 {
			if err := p.wait(time.Until(start.Add(time.Duration(i) * r.Gap))); err != nil {
				return err
			}
		}
		if err := p.say(model.TextDelta, r.Text); err != nil {
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
