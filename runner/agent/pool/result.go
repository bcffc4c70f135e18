package pool

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"holon/internal/providers"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/turnfiles"
	"holon/state"
)

// Result is how a turn ended that was begun. All text is without known secrets
// and otherwise the container's word: bounded, not cleaned for a terminal.
type Result struct {
	TurnID     string
	ResponseID string // that the next turn may continue; "" when it is not known
	// Lost: the turn was cut off from outside, or its end is not known. agentd
	// keeps its output under ResponseID when its container starts again.
	Lost bool
	// Status is the end of the turn: completed, failed, incomplete or cancelled;
	// "" when it is not known.
	Status  responses.Status
	Reason  string         // code: why it is not completed
	Failure *state.Failure // the same for a person; nil when it is completed
	// Artifact is the evidence of a failed turn; nil when there is none.
	Artifact  *turns.FailureArtifact
	Artifacts []turns.Artifact // files that the turn left in its directory
	Last      string           // what the agent said last, at most maxLast bytes
	Model     string           // that gave the newest answer, provider/model; "": none did
	Usage     *responses.Usage
	Rounds    int
	ToolCalls int
	Provider  *turns.ProviderTimeline
	StartedAt time.Time
	EndedAt   time.Time
	Inserted  []string // ids of the messages that the model was told while it ran
	Fresh     string   // why the turn got another container than the one before; "": it did not
}

// maxLast bounds Result.Last in bytes, without the mark that it was shortened.
const maxLast = 256 << 10

// result is the Result of a turn whose end was seen.
func (k *Pool) result(a *agent, t Turn, out runner.TurnResult) Result {
	rec, _, err := turnfiles.Read(k.private(a, sessionDir), t.ID)
	if err != nil {
		k.opts.Log.Warn("a turn's record cannot be read", "agent", a.id, "turn", t.ID, "err", err)
	}
	resp := out.Response
	r := k.recorded(t, out, rec)
	r.Status, r.Last, r.Usage = resp.Status, visible.Clip(k.opts.Secrets.Text(resp.OutputText()), maxLast),
		plausible(resp.Usage)
	switch {
	case resp.Status == responses.StatusCompleted:
		r.Model = cmp.Or(r.Model, named(t, resp.Model))
		return r
	case k.hostEnded(&r, out.OverQuota, nil):
		return r
	}
	r.Failure = out.Failure()
	r.Failure.Message, r.Reason = k.opts.Secrets.Text(r.Failure.Message), r.Failure.Code
	r.Lost = resp.Status == responses.StatusFailed && r.Reason == responses.CodeInterrupted ||
		resp.Status == responses.StatusIncomplete && r.Reason == responses.ReasonShutdown
	return r
}

// lost is the Result of a turn of which no end is known.
func (k *Pool) lost(t Turn, out runner.TurnResult, rec *turns.Record) Result {
	r := k.recorded(t, out, rec)
	if out.Response != nil {
		r.Last = visible.Clip(k.opts.Secrets.Text(out.Response.OutputText()), maxLast)
	}
	if k.hostEnded(&r, out.OverQuota, out.Err) {
		return r
	}
	r.Lost, r.Reason = true, responses.CodeInterrupted
	message := "the turn was interrupted, and its end is not known"
	if out.Err != nil {
		message = runner.Describe(out.Err).Message
	}
	r.Failure = &state.Failure{Code: r.Reason, Message: k.opts.Secrets.Text(message)}
	return r
}

// hostEnded fills in the end of a turn that the host ended, which overrides the turn's own end.
func (k *Pool) hostEnded(r *Result, over *runner.Error, why error) bool {
	switch {
	case over != nil:
		r.Status, why = responses.StatusIncomplete, over
	case errors.Is(why, runner.ErrInterrupted):
		r.Status = responses.StatusCancelled
	case errors.Is(why, runner.ErrDeadline):
		r.Status = responses.StatusIncomplete
	default:
		return false
	}
	f := runner.Describe(why)
	r.Reason, r.Failure = f.Code, &f
	return true
}

// recorded is what the turn's record says, or without one what is known anyway.
func (k *Pool) recorded(t Turn, out runner.TurnResult, rec *turns.Record) Result {
	r := Result{TurnID: t.ID, EndedAt: k.opts.Now()}
	if out.Response != nil {
		r.ResponseID = out.Response.ID
	}
	if rec == nil {
		return r
	}
	r.ResponseID = cmp.Or(r.ResponseID, rec.ResponseID)
	r.Rounds, r.ToolCalls, r.Artifact, r.Artifacts = rec.Rounds, rec.ToolCalls.Total, rec.FailureArtifact, rec.Artifacts
	if p := rec.ProviderAttempts; p != nil {
		r.Provider = tried(t, *p)
		r.Model = r.Provider.WinningModelRef
	}
	if r.Artifact != nil && r.Artifact.ModelRef != "" {
		r.Artifact.ModelRef = named(t, r.Artifact.ModelRef)
	}
	for _, in := range rec.Inputs {
		if in.Inserted {
			r.Inserted = append(r.Inserted, in.ID)
		}
	}
	r.Usage, r.StartedAt = plausible(rec.Usage), rec.StartedAt.Time()
	if !rec.CompletedAt.IsZero() {
		r.EndedAt = rec.CompletedAt.Time()
	}
	return r
}

// tried is a timeline with the references by which the host knows the models.
func tried(t Turn, p turns.ProviderTimeline) *turns.ProviderTimeline {
	for _, ref := range []*string{&p.RequestedModelRef, &p.ActiveModelRef, &p.WinningModelRef} {
		*ref = named(t, *ref)
	}
	p.Attempts = slices.Clone(p.Attempts)
	for i := range p.Attempts {
		p.Attempts[i].ModelRef = named(t, p.Attempts[i].ModelRef)
	}
	return &p
}

// named is the reference by which the host knows a model of a turn. A container has a scenario, which can only be the
// first model, in a file of its own.
func named(t Turn, ref string) string {
	provider, _, _ := providers.SplitRef(ref)
	if provider == providers.Scripted && !slices.Contains(t.Fallbacks, ref) {
		return cmp.Or(t.Model, ref)
	}
	return ref
}

// plausible leaves out a usage that cannot be one: it is summed up.
func plausible(u *responses.Usage) *responses.Usage {
	const most = 1 << 40
	if u == nil || u.InputTokens < 0 || u.OutputTokens < 0 || u.TotalTokens < 0 || u.InputTokens > most ||
		u.OutputTokens > most || u.TotalTokens > 2*most {
		return nil
	}
	return u
}
