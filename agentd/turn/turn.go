// Package turn runs one turn: sample the model, run the container tools it
// calls, sample again, until it answers, hands a call to the client, fails or
// meets a limit. `agentd serve` and `agentd run` share this one function.
//
//	history + input ─▶ model ─▶ events ─▶ emitter (the stream)
//	                     ▲         │
//	                     │         └─▶ calls ─▶ tools ─▶ journal (the record)
//	                     └────────────── results ◀──┘
//
// This package, not the provider, decides which tools the model may call: see rules. It knows neither HTTP nor
// providers nor disks. It keeps three promises: the stream it emits ends with exactly one terminal event unless the
// sink itself fails; a tool call is recorded before it runs and never runs twice; and the conversation that a model is
// sent only grows at its end, so that providers can cache it, except for compactions, each of which is recorded (see
// view), for pictures and files that a provider refused (see strip), and for a reminder at the end of a single request
// (see reminding).
package turn

import (
	"context"
	"errors"
	"slices"
	"time"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/internal/providers"
	"holon/responses"
	"holon/responses/turns"
)

// Causes that end a turn from outside, for context.WithCancelCause.
var (
	ErrCancelled = errors.New("the turn was cancelled")
	ErrTimeout   = errors.New("the turn ran out of time")
	ErrShutdown  = errors.New("the server is shutting down")
	ErrOutput    = errors.New("the turn left too much output") // in its directory, or in its response
)

// Journal keeps a turn's facts. Started must be durable when it returns. An
// error of the journal ends the turn: facts are not dropped silently.
type Journal interface {
	Started(call *responses.ToolCall) error
	Add(item responses.Item) error
	Event(ev turns.RuntimeEvent) error
	// Hide keeps what a tool told the model in confidence out of what others read from now on.
	Hide(values []string) error
	// Shown returns JSON without what Hide was told of.
	Shown(data []byte) []byte
}

// Toolset is the container's tools.
type Toolset interface {
	Definitions() []tools.Definition
	Run(ctx context.Context, env tools.Env, call tools.Call) tools.Outcome
}

// Prompt is the beginning of a conversation, which a transport sends as instructions.
type Prompt struct {
	Text        string
	Breakpoints []int // as in model.Request; may be nil
}

// Turn is everything one turn needs. All fields are required except those
// that say otherwise.
type Turn struct {
	Request *responses.Request
	History []responses.Item // the conversation before this turn, without its prompt; nil for a new one
	Input   []responses.Item // what the turn adds: what is new of the prompt, and the request's input
	Prompt  Prompt
	Model   model.Choice
	Tools   Toolset
	Env     tools.Env // its Secrets are taken out of calls and results before they are shown, kept or sent
	Emitter *responses.Emitter
	Journal Journal
	Scope   turns.Scope

	MaxRounds int
	RetryFor  time.Duration // as in model.Request

	// Watch returns facts about a tool call that began in workDir and ended, which follow the call's own in the record.
	// It may be nil.
	Watch func(call *responses.ToolCall, outcome tools.Outcome, workDir string) []turns.RuntimeEvent

	// FindDir returns the working directory that a result directs (responses.Directive), or why no call can work there.
	FindDir func(name string) (string, *tools.Error)

	// Window is what the model takes. The zero value has no bound.
	Window providers.Window
	Memory Memory // what the turn before left, at the same model; zero for nothing
	Dir    string // the turn's output directory, which artifact paths are relative to; "" for none
	// Families know the results of tools, also of tools that the turn does not have. Results of others are shortened by
	// their JSON.
	Families tools.Families

	// Full reports whether the turn has left as much output as it may; it is asked
	// before each round. Nil: it may leave any.
	Full func() bool

	// Notices returns what the model has to learn before it is asked again, and a
	// function that is called once that is in the journal. It may be nil.
	Notices func() ([]Notice, func())

	// Inbox is what the user says while the turn runs. It may be nil.
	Inbox Inbox
}

// Inbox holds messages that the user sends while the turn runs.
type Inbox interface {
	// Insert records that the model is told what waits there in the given round, and
	// returns it. An error ends the turn.
	Insert(round int) ([]responses.Item, error)

	// Close takes no more, unless something waits: then it reports false, and the
	// turn has one more round to answer it.
	Close() bool
}

// Result says what a turn did.
type Result struct {
	Rounds    int // model rounds begun
	ToolCalls turns.ToolCalls
	Usage     responses.Usage
	Attempts  turns.ProviderTimeline
	Failure   *turns.FailureArtifact // set when a model's failure ended the turn

	// Conversation is the history, the input and the items of this turn. It must not be changed.
	Conversation []responses.Item

	Memory Memory // for the next turn of the conversation
}

// Run runs the turn to its terminal event. ctx ends it early; its cause decides
// how: ErrTimeout, ErrOutput and ErrShutdown leave an incomplete response, anything else a
// cancelled one. The error is not nil only when the sink or the journal failed,
// and then the stream has no terminal event.
func (t *Turn) Run(ctx context.Context) (*Result, error) {
	r := t.runner()
	r.env.Images = r.takes.Images
	if err := t.Emitter.Begin(); err != nil {
		return &r.result, err
	}
	err := r.loop(ctx)
	r.result.Conversation, r.result.Memory = r.input, r.view.memory()
	return &r.result, err
}

// FirstRequest returns what the turn would ask the model first, before a conversation that is too long is made shorter.
// It needs no Emitter, Journal or Env, and changes nothing.
func (t *Turn) FirstRequest() model.Request {
	r := t.runner()
	if t.Notices != nil {
		list, _ := t.Notices()
		for _, n := range list {
			if n.Item != nil {
				r.view.add(n.Item)
			}
		}
	}
	return r.modelRequest()
}

// Excluded lists why no model can be asked what the turn asks first, nil where one can.
func (t *Turn) Excluded() []turns.Excluded {
	return model.ExcludedBy(t.runner().modelRequest(), t.Model.Transport, t.Model.Ref)
}

func (t *Turn) runner() *runner {
	r := &runner{Turn: t, env: t.Env, rules: newRules(t.Request), input: slices.Concat(t.History, t.Input),
		takes: model.CapabilitiesOf(t.Model.Transport, t.Model.Name), reminder: remindingOf(t.Request)}
	r.view = newView(r)
	r.clientTools = make(map[string]bool, len(t.Request.Tools))
	for _, tool := range t.Request.Tools {
		r.clientTools[tool.Name] = true
	}
	return r
}

// runner is the state of a running turn.
type runner struct {
	*Turn
	input       []responses.Item // the whole conversation, append-only
	view        *view            // what of it the model is told
	clientTools map[string]bool  // functions that the client runs
	rules       rules
	reminder    reminding
	env         tools.Env // as the model's abilities have it
	takes       model.Capabilities
	callIDs     map[string]bool // of all calls of the conversation; made with the first
	idle        int             // rounds in a row of nothing but rejected calls
	nudged      bool            // the answer was empty, and the model is asked once more
	shown       int             // bytes that the model's answers take in the response
	spoken      int64           // tokens of the model's answers so far
	handed      int             // calls that are known to wait for the client
	result      Result

	building    time.Time              // when the present round began, until its first request; else zero
	lastFailure *turns.ProviderAttempt // of the present round
}

func (r *runner) loop(ctx context.Context) error {
	if r.Request.NoModel {
		return r.complete()
	}
	for {
		if limit := r.spent(); limit != "" {
			return r.incomplete(limit)
		}
		r.result.Rounds++
		r.building = r.Scope.Now()
		if err := r.notice(); err != nil {
			return err
		}
		if err := r.hear(); err != nil {
			return err
		}
		err := r.fit(ctx)
		var round *round
		if err == nil {
			round, err = r.sample(ctx)
		}
		if err == nil {
			err = r.stripped()
		}
		again, broken := r.strip(err)
		if !again && broken == nil {
			again, broken = r.shorten(ctx, err)
		}
		if broken != nil {
			return broken
		}
		if again {
			r.result.Rounds--
			continue
		}
		if err != nil {
			return r.fail(ctx, err)
		}
		done, err := r.settle(ctx, round)
		if err != nil || done {
			return err
		}
	}
}

// spent returns the limit that leaves no further round, "" for none.
func (r *runner) spent() string {
	left := r.tokensLeft()
	switch {
	case r.result.Rounds >= r.MaxRounds:
		return responses.ReasonMaxRounds
	case r.Full != nil && r.Full():
		return responses.ReasonMaxOutputBytes
	case left != nil && *left < 1:
		return responses.ReasonMaxOutputTokens
	}
	return ""
}

// tokensLeft returns what the model may still say: max_output_tokens is a limit
// of the response, not of a round. It is nil without a limit.
func (r *runner) tokensLeft() *int {
	limit := r.Request.MaxOutputTokens
	if limit == nil {
		return nil
	}
	left := *limit - int(min(r.spoken, int64(*limit)))
	return &left
}

// spend counts the usage of an attempt at an answer. That of a summary counts in the response's usage alone.
func (r *runner) spend(u responses.Usage) {
	r.result.Usage = r.result.Usage.Add(u)
	r.spoken += u.OutputTokens
}

// add appends an item to what the model is told and to the journal.
func (r *runner) add(item responses.Item) error {
	r.input = append(r.input, item)
	r.view.add(item)
	return r.Journal.Add(item)
}

// fail ends the turn after an attempt at the model failed.
func (r *runner) fail(ctx context.Context, err error) error {
	if errors.Is(err, ErrOutput) {
		return r.incomplete(responses.ReasonMaxOutputBytes)
	}
	var cause *responses.Error
	if failed, ok := errors.AsType[*model.Error](err); ok {
		cause = failed.Response()
	} else if cause, ok = errors.AsType[*responses.Error](err); !ok || cause.Type != responses.TypeModelError {
		return err // the sink or the journal; a model_error is the emitter refusing what the model made
	}
	if ctx.Err() != nil {
		return r.interrupt(ctx)
	}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		if failed.Kind == model.KindBudget { // a limit was met, nothing broke
			return r.incomplete(responses.ReasonBudget)
		}
		r.result.Failure = failure(failed, r.lastFailure)
	}
	return r.end(func(em *responses.Emitter) error { return em.Fail(cause, r.result.Usage) })
}

// interrupt ends the turn for the reason that ended its context.
func (r *runner) interrupt(ctx context.Context) error {
	switch cause := context.Cause(ctx); {
	case errors.Is(cause, ErrTimeout), errors.Is(cause, context.DeadlineExceeded):
		return r.incomplete(responses.ReasonTimeout)
	case errors.Is(cause, ErrOutput):
		return r.incomplete(responses.ReasonMaxOutputBytes)
	case errors.Is(cause, ErrShutdown):
		return r.incomplete(responses.ReasonShutdown)
	}
	cancelled := &responses.Error{Type: responses.TypeServerError, Code: responses.CodeCancelled,
		Message: ErrCancelled.Error()}
	return r.end(func(em *responses.Emitter) error { return em.Cancel(cancelled, r.result.Usage) })
}

func (r *runner) incomplete(reason string) error {
	return r.end(func(em *responses.Emitter) error { return em.Incomplete(reason, r.result.Usage) })
}

// end emits the terminal event. Items that it cuts short join the history, so that the next turn sees what the user
// saw; a call that was cut short does not, because it cannot be answered and providers refuse a call without an answer.
func (r *runner) end(emit func(*responses.Emitter) error) error {
	before := len(r.Emitter.Response().Output)
	if err := emit(r.Emitter); err != nil {
		return err
	}
	for _, item := range r.Emitter.Response().Output[before:] {
		if call, ok := item.(*responses.FunctionCall); ok && call.Status == responses.ItemIncomplete {
			continue
		}
		if err := r.add(item); err != nil {
			return err
		}
	}
	return nil
}
