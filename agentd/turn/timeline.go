package turn

import (
	"strconv"
	"strings"
	"time"

	"holon/agentd/model"
	"holon/responses/turns"
)

// attempt is an attempt at a model in the terms of the record (runtime
// specification, "Provider attempt timeline contract").
func (w *attempts) attempt(a model.Attempt) turns.ProviderAttempt {
	provider, _, _ := strings.Cut(a.Ref, "/")
	made := turns.ProviderAttempt{
		Provider: provider, ModelRef: a.Ref, Round: w.runner.result.Rounds, Attempt: a.Number, MaxAttempts: a.Max,
		StartedAt: turns.At(a.Started), CompletedAt: turns.At(a.Ended),
		DurationMS: a.Ended.Sub(a.Started).Milliseconds(),
		Outcome:    string(a.Outcome), AdvancedToFallback: a.Advanced, BackoffMS: a.Backoff.Milliseconds(),
		TokenUsage: turns.Tokens(a.Usage), Purpose: w.purpose(),
	}
	if w.sampler != nil {
		made.Prompt = w.runner.view.prompt(a)
		if began := w.runner.building; !began.IsZero() {
			made.ContextBuildMS, w.runner.building = max(0, a.Started.Sub(began).Milliseconds()), time.Time{}
		}
	}
	if a.Err == nil {
		return made
	}
	made.FailureKind, made.HTTPStatus, made.Disposition = string(a.Err.Kind), a.Err.Status, "fail_fast"
	if a.Err.Retryable() {
		made.Disposition = "retryable"
	}
	made.TransportDiagnostics = diagnostics(a.Err, provider, a.Ref)
	if w.sampler != nil {
		w.runner.lastFailure = &made
	}
	return made
}

func diagnostics(e *model.Error, provider, ref string) *turns.TransportDiagnostics {
	d := e.Diagnostics
	if d == nil {
		return nil
	}
	return &turns.TransportDiagnostics{
		Stage: d.Stage, Provider: provider, ModelRef: ref, URL: d.URL, Status: e.Status, SourceChain: d.Chain,
		Reqwest: &turns.Reqwest{
			IsTimeout: d.Timeout, IsConnect: d.Connect, IsRequest: d.Request, IsBody: d.Body, IsDecode: d.Decode,
			IsRedirect: d.Redirect, Status: e.Status,
		},
	}
}

// failure is the artifact of a turn that a model's failure ended (runtime
// specification, "Failure Artifact Envelope"). last is the attempt that failed,
// nil when the failure came from elsewhere.
func failure(e *model.Error, last *turns.ProviderAttempt) *turns.FailureArtifact {
	f := turns.FailureArtifact{Category: category(e.Kind), Kind: string(e.Kind), Summary: e.Message, Status: e.Status,
		Metadata: map[string]string{}}
	if e.Code != "" {
		f.Metadata["code"] = e.Code
	}
	if last != nil {
		f.Provider, f.ModelRef = last.Provider, last.ModelRef
		f.Metadata["outcome"], f.Metadata["attempt"] = last.Outcome, strconv.Itoa(last.Attempt)
		f.Metadata["max_attempts"], f.Metadata["round"] = strconv.Itoa(last.MaxAttempts), strconv.Itoa(last.Round)
	}
	if d := e.Diagnostics; d != nil {
		f.SourceChain, f.Metadata["stage"] = d.Chain, d.Stage
	}
	return f.Bounded()
}

func category(kind model.ErrorKind) string {
	switch kind {
	case model.KindTransport, model.KindTimeout, model.KindAuthentication, model.KindInvalidRequest,
		model.KindRateLimited, model.KindOverloaded:
		return turns.FailureTransport
	case model.KindProtocol, model.KindUnsupported:
		return turns.FailureProtocol
	}
	return turns.FailureRuntime
}
