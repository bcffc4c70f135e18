package turn

import (
	"context"
	"encoding/base64"
	"fmt"

	"holon/agentd/model"
	"holon/agentd/structured"
	"holon/agentd/tools"
	"holon/internal/tracecontext"
	"holon/responses"
	"holon/responses/turns"
)

// settle acts on a finished round: it runs the container's calls and decides whether the turn is over. Calls that the
// model has made are run even when the turn ends with them.
func (r *runner) settle(ctx context.Context, round *round) (done bool, err error) {
	if round.stop == model.StopMaxTokens && len(round.calls) == 0 {
		return true, r.incomplete(responses.ReasonMaxOutputTokens)
	}
	if round.stop == model.StopContentFilter {
		return true, r.incomplete(responses.ReasonContentFilter)
	}
	ran, siblings := false, r.siblings(round)
	r.nudged = r.nudged && round.empty
	for _, call := range round.calls {
		ran = ran || call.why == nil && call.unknown == nil
		if err := r.runCall(ctx, call, siblings); err != nil {
			return true, err
		}
	}
	switch {
	case ran:
		r.idle = 0
	case len(round.calls) > 0:
		r.idle++
	}
	return r.over(ctx, round)
}

// over ends the turn if the round, whose calls were run, is its last. The checks stand in the order of their weight.
func (r *runner) over(ctx context.Context, round *round) (done bool, err error) {
	switch {
	case len(round.calls) > 0 && ctx.Err() != nil:
		return true, r.interrupt(ctx)
	case round.handedOver > 0: // the client's calls end the turn, in spite of other items of the round
		return true, r.complete()
	case round.overLimit:
		return true, r.incomplete(responses.ReasonMaxToolCalls)
	case round.empty:
		return r.unanswered(ctx)
	case len(round.calls) == 0 && r.askedAgain(ctx):
		return false, nil
	case len(round.calls) == 0: // a finished answer counts, however late
		return true, r.answer(round)
	case r.idle >= maxRejectedRounds:
		return true, r.modelFault(
			responses.CodeToolNotAllowed,
			"the model kept calling tools that there are not, or that it "+
				"may not call",
		)
	}
	return false, nil
}

// siblings is what the calls of a round receive of the round.
func (r *runner) siblings(round *round) tools.Round {
	if len(round.calls) == 0 {
		return tools.Round{}
	}
	text, refused := r.lastText(round)
	if refused {
		text = ""
	}
	b := tools.Round{Text: text}
	for _, c := range round.calls {
		if c.why == nil {
			b.Calls = append(b.Calls, c.call())
		}
	}
	return b
}

// answer ends a turn whose model called nothing more.
func (r *runner) answer(round *round) error {
	said, refused := r.lastText(round)
	if refused { // the one answer that fits every form
		return r.complete()
	}
	if r.rules.forced() && !r.rules.met() {
		return r.choiceUnmet()
	}
	format, err := structured.Compile(r.Request.Text.Format)
	if err != nil { // Check accepted the format, so this does not happen
		return r.end(func(em *responses.Emitter) error { return em.Fail(responses.AsError(err), r.result.Usage) })
	}
	if format != nil {
		if err := format.Check(said); err != nil {
			return r.modelFault(responses.CodeStructuredOutput,
				"the model's answer does not have the form that text.format asks for: "+tools.Clip(err.Error(), 400))
		}
	}
	return r.complete()
}

func (r *runner) choiceUnmet() error {
	return r.modelFault(responses.CodeToolChoiceUnmet,
		"the model answered without the tool call that tool_choice demands")
}

// lastText returns the text of the round's last message, and whether it refuses.
func (r *runner) lastText(round *round) (text string, refused bool) {
	output := r.Emitter.Response().Output
	for i := len(output) - 1; i >= round.from; i-- {
		m, ok := output[i].(*responses.Message)
		if !ok {
			continue
		}
		for _, p := range m.Content {
			refused = refused || p.Type == responses.PartRefusal
		}
		return m.Text(), refused
	}
	return "", false
}

func (r *runner) complete() error {
	return r.end(func(em *responses.Emitter) error { return em.Complete(r.result.Usage, r.Scope.Now().Unix()) })
}

// modelFault fails the turn for something that the model did.
func (r *runner) modelFault(code, message string) error {
	cause := &responses.Error{Type: responses.TypeModelError, Code: code, Message: message}
	return r.end(func(em *responses.Emitter) error { return em.Fail(cause, r.result.Usage) })
}

// runCall gives a call that stays in the container its result: by running it,
// or by saying why it is not run.
func (r *runner) runCall(ctx context.Context, c *ownCall, siblings tools.Round) error {
	switch {
	case c.why != nil:
		warning := turns.Notice{Code: c.why.Kind,
			Message: fmt.Sprintf("a call of %s was not run: %s", c.Name, c.why.Message), Component: "turn",
			Recoverable: true}
		decision := turns.Decision{ToolName: c.Name, Decision: turns.DecisionDeny, Source: "rule",
			Reason: c.why.Message}
		for _, fact := range []turns.RuntimeEvent{r.Scope.OfCall(turns.PermissionDecided, c.ID, decision),
			r.Scope.Warning(warning)} {
			if err := r.Journal.Event(fact); err != nil {
				return err
			}
		}
		return r.refuse(c, c.why)
	case ctx.Err() != nil:
		return r.refuse(c, &tools.Error{Kind: tools.KindCanceled, Message: "not run: the turn was ended first"})
	}
	if err := r.Journal.Started(&c.ToolCall); err != nil {
		return err
	}
	if err := r.show(c); err != nil {
		return err
	}
	for _, fact := range r.toolStarted(c) {
		if err := r.Journal.Event(fact); err != nil {
			return err
		}
	}
	began := r.env.WorkDir
	outcome, last, err := r.run(ctx, c, siblings)
	if err != nil {
		return err
	}
	outcome, changes, err := r.follow(c.ID, outcome)
	if err != nil {
		return err
	}
	r.reminder.renew(outcome, r.result.Rounds)
	r.result.ToolCalls.Add(c.Name, outcome.Canonical.Error != nil)
	facts := append(r.toolEnded(c.ID, outcome), r.taskBegun(&c.ToolCall, last, outcome)...)
	if r.Watch != nil {
		facts = append(facts, r.Watch(&c.ToolCall, outcome, began)...)
	}
	for _, fact := range append(facts, changes...) {
		if err := r.Journal.Event(fact); err != nil {
			return err
		}
	}
	return r.conclude(c, outcome)
}

// run calls the tool of a call. last is the process that the call started last, nil for none; the error is the
// journal's.
func (r *runner) run(ctx context.Context, c *ownCall, siblings tools.Round) (o tools.Outcome, last *turns.Process,
	err error) {
	if c.unknown != nil {
		return tools.Refuse(c.Name, c.unknown), nil, nil
	}
	ctx = tracecontext.With(ctx, r.Scope.Trace.Child(c.ID))
	call := c.call()
	call.Round = siblings
	env, ran := r.env, processes{observer: observer{runner: r}, call: c.ID}
	env.Processes = &ran
	outcome := r.Tools.Run(ctx, env, call)
	return outcome, ran.last, ran.err
}

// refuse gives a call that is not run its result.
func (r *runner) refuse(c *ownCall, why *tools.Error) error {
	if err := r.show(c); err != nil {
		return err
	}
	return r.conclude(c, tools.Refuse(c.Name, why))
}

// show announces a call on the stream of a request that asked for it. To others
// it would be noise at best (decision 5).
func (r *runner) show(c *ownCall) error {
	if !r.Request.ShowToolCalls {
		return nil
	}
	return r.Emitter.BeginToolCall(&c.ToolCall)
}

// conclude shows the model the result of a call, and the client where it asked.
func (r *runner) conclude(c *ownCall, o tools.Outcome) error {
	canonical, err := o.Canonical.Encode()
	if err != nil {
		return err
	}
	ended := c.ToolCall
	ended.Status, ended.Result, ended.Output, ended.Media = responses.ItemCompleted, r.clean(canonical),
		string(r.clean([]byte(o.Rendered))), media(o.Images)
	if len(o.Artifacts) > 0 {
		ended.ArtifactDir = r.Dir
	}
	if err := r.add(&ended); err != nil {
		return err
	}
	if !r.Request.ShowToolCalls {
		return nil
	}
	return r.Emitter.EndToolCall(&ended)
}

// media returns the pictures of a result as the model is sent them.
func media(images []tools.Image) (parts []responses.Part) {
	for _, i := range images {
		url := "data:" + i.MediaType + ";base64," + base64.StdEncoding.EncodeToString(i.Data)
		parts = append(parts, responses.Part{Type: responses.PartInputImage, ImageURL: url, Detail: i.Detail})
	}
	return parts
}
