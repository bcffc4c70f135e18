package turn

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/conform"
	"holon/test/expect"
)

// play is a model that says what it is given, one list of events a round.
type play struct {
	rounds [][]model.Event
	always []model.Event   // said in every round when there are no rounds
	fail   error           // after the last event of the last round
	breaks map[int]error   // after the last event of a round, by its place in rounds
	asked  []model.Request // what it was told, with a copy of the input
	before func()          // called before each event, if set
	refuse error           // how rounds without events fail; nil for not at all
	digest []model.Event   // the answer to the request for a summary, which does not count as a round
	sums   int             // summaries that were asked for
	told   []string        // what they were made of
	busy   func()          // called while a summary is made, if set
}

// Stream implements model.Transport.
func (p *play) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if req.Purpose == model.PurposeSummary {
			p.sums++
			p.told = append(p.told, req.Input[0].(*responses.Message).Text())
			if p.busy != nil {
				p.busy()
			}
			for _, ev := range p.digest {
				if !yield(ev, nil) {
					return
				}
			}
			if p.digest == nil {
				yield(model.Event{}, p.refuse)
			}
			return
		}
		req.Input = slices.Clone(req.Input)
		n := len(p.asked)
		p.asked = append(p.asked, req)
		events := p.always
		if len(p.rounds) > 0 {
			events = p.rounds[n]
		}
		if len(events) == 0 && p.refuse != nil {
			yield(model.Event{}, p.refuse)
			return
		}
		for _, ev := range events {
			if p.before != nil {
				p.before()
			}
			if !yield(ev, nil) {
				return
			}
		}
		if err := p.breaks[n]; err != nil {
			yield(model.Event{}, err)
			return
		}
		if (n == len(p.rounds)-1 || len(p.rounds) == 0) && p.fail != nil {
			yield(model.Event{}, p.fail)
		}
	}
}

// journal keeps a turn's facts in memory, in one order.
type journal struct {
	lines  []string
	items  []responses.Item
	events []turns.RuntimeEvent
	fail   string // the line at which it breaks
}

var errJournal = errors.New("the journal broke")

func (j *journal) note(line string) error {
	j.lines = append(j.lines, line)
	if j.fail != "" && strings.HasPrefix(line, j.fail) {
		return errJournal
	}
	return nil
}

func (j *journal) Started(call *responses.ToolCall) error { return j.note("started " + call.CallID) }
func (j *journal) Add(item responses.Item) error {
	j.items = append(j.items, item)
	return j.note("add " + item.ItemType())
}
func (j *journal) Hide(values []string) error { return j.note("hide " + strings.Join(values, " ")) }
func (j *journal) Shown(data []byte) []byte   { return data }
func (j *journal) Event(ev turns.RuntimeEvent) error {
	j.events = append(j.events, ev)
	return j.note(ev.Type)
}

// box is a set of one tool that says what it was called with.
type box struct {
	journal *journal
	ran     []string
	cancel  context.CancelCauseFunc // called by the first call when set
	before  func()                  // called before each call, if set

	say func(id string) tools.Outcome // what a call gives, if set
}

func (b *box) Definitions() []tools.Definition {
	return []tools.Definition{{Name: "Run", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`)}}
}

func (b *box) Run(_ context.Context, _ tools.Env, call tools.Call) tools.Outcome {
	b.ran = append(b.ran, call.ID)
	if b.before != nil {
		b.before()
	}
	_ = b.journal.note("ran " + call.ID)
	if b.cancel != nil {
		b.cancel(ErrTimeout)
	}
	if b.say != nil {
		return b.say(call.ID)
	}
	return tools.Outcome{Canonical: tools.Result{ToolName: call.Name, Status: "success",
		Result: json.RawMessage(`{}`)}, Rendered: "out of " + call.ID}
}

// stage is one turn and all that can be seen of it.
type stage struct {
	model   *play
	journal *journal
	box     *box
	stream  []string
	em      *responses.Emitter
	turn    *Turn
}

func newStage(t expect.Test, body string, rounds ...[]model.Event) *stage {
	t.Helper()
	req, err := responses.DecodeRequest([]byte(body))
	expect.NoError(t, err)
	s := &stage{model: &play{rounds: rounds}, journal: &journal{}}
	s.box = &box{journal: s.journal}
	sink := func(_ string, data []byte) error { s.stream = append(s.stream, string(data)); return nil }
	if s.em, err = responses.NewEmitter(responses.NewResponse("resp_1", "fake/m", 1, req), sink); err != nil {
		t.Fatal(err)
	}
	s.turn = &Turn{Request: req, Input: req.Input, Tools: s.box, Emitter: s.em, Journal: s.journal, MaxRounds: 10,
		Model: model.Choice{Transport: model.Retry(s.model, "fake/m", model.Policy{}), Name: "m", Ref: "fake/m"},
		Scope: turns.Scope{RuntimeID: "inst_1", SessionID: "s", TurnID: "t", Now: time.Now}}
	return s
}

// run runs the turn, which must end legally, and returns its response.
func (s *stage) run(t *testing.T, ctx context.Context) (responses.Response, Result) {
	t.Helper()
	result, err := s.turn.Run(ctx)
	expect.NoError(t, err)
	var c conform.Checker
	for _, line := range s.stream {
		if err := c.Event([]byte(line)); err != nil {
			t.Fatalf("%v\n%s", err, strings.Join(s.stream, "\n"))
		}
	}
	expect.NoError(t, c.End())
	return s.em.Response(), *result
}

// Short forms of model events.
func ev(kind model.EventKind, text ...string) model.Event {
	return model.Event{Kind: kind, Text: strings.Join(text, "")}
}

func call(id, name, args string) []model.Event {
	return []model.Event{{Kind: model.CallBegin, CallID: id, Name: name}, ev(model.CallDelta, args),
		{Kind: model.CallEnd, CallID: id, Name: name, Text: args}}
}

func done(stop model.Stop) model.Event {
	return model.Event{Kind: model.Done, Stop: stop, Usage: responses.Usage{OutputTokens: 2, TotalTokens: 2}}
}

func join(parts ...any) (list []model.Event) {
	for _, p := range parts {
		switch p := p.(type) {
		case model.Event:
			list = append(list, p)
		case []model.Event:
			list = append(list, p...)
		}
	}
	return list
}

var answer = []model.Event{ev(model.MessageBegin), ev(model.TextDelta, "Done."), done(model.StopEnd)}

const clientTool = `,"tools":[{"type":"function","name":"ask"}]`
