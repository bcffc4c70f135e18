package turn

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"unicode"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
)

// round is what one sampling of the model gave.
type round struct {
	calls      []*ownCall // that stay in the container
	handedOver int        // calls of the client's functions, already on the stream
	overLimit  bool       // a call was over max_tool_calls
	from       int        // where the round's items begin in the output
	stop       model.Stop
	mark       string           // what the calls that stay have in common
	items      []responses.Item // that are closed and join the conversation with the answer's end
	empty      bool             // the answer calls nothing, and says nothing or that it calls
}

// sample asks the model once and streams what it does. The error is a
// *model.Error when the model failed, anything else when the stream or the
// journal did.
func (r *runner) sample(ctx context.Context) (*round, error) {
	s := &sampler{runner: r, round: &round{from: len(r.Emitter.Response().Output)}}
	r.rules.round, r.lastFailure = 0, nil
	req := r.modelRequest()
	s.before, s.left = r.rules, req.MaxOutputTokens
	r.view.ask(req)
	if err := r.remind(&req); err != nil {
		return nil, err
	}
	r.nudge(&req)
	watch := &attempts{observer: observer{runner: r}, sampler: s, tokens: r.view.now.tokens}
	req.Observer, req.Retract = watch, s.retract
	r.view.sent = r.view.now.preamble
	if err := s.read(r.Model.Transport.Stream(ctx, req), watch); err != nil {
		if broken := s.keep(); broken != nil { // the next turn sees what the user saw
			return nil, broken
		}
		return nil, err
	}
	r.view.heard = r.view.asked
	return s.round, nil
}

// read takes an answer to its end.
func (s *sampler) read(answer iter.Seq2[model.Event, error], watch *attempts) error {
	for ev, err := range answer {
		if err == nil {
			err = s.take(ev)
		}
		if err == nil {
			err = watch.err
		}
		if s.err != nil {
			err = s.err
		}
		if err != nil {
			return err
		}
	}
	if watch.err == nil && !s.done {
		return &model.Error{Kind: model.KindProtocol, Message: "the model's answer has no end"}
	}
	return watch.err
}

// modelRequest builds the next request. Everything in it is the same in every
// round but for the input, which has grown, and for a tool choice that was met.
func (r *runner) modelRequest() model.Request {
	q := r.Request
	req := model.Request{
		Model: r.Model.Name, Instructions: r.Prompt.Text, Breakpoints: r.Prompt.Breakpoints,
		Input:      r.view.visible.Items,
		ToolChoice: r.rules.toolChoice(), ParallelToolCalls: q.ParallelToolCalls, MaxOutputTokens: r.tokensLeft(),
		Temperature: q.Temperature, TopP: q.TopP, PresencePenalty: q.PresencePenalty,
		FrequencyPenalty: q.FrequencyPenalty,
		Sampling:         q.Sampling, Reasoning: q.Reasoning, Text: q.Text, ServiceTier: q.ServiceTier,
		Metadata: q.Metadata,
		Logprobs: q.Includes(responses.IncludeLogprobs), TopLogprobs: q.TopLogprobs,
	}
	req.PromptCacheKey, req.RetryFor = cacheKey(r.Scope.SessionID), r.RetryFor
	if q.PromptCacheKey != nil {
		req.PromptCacheKey = *q.PromptCacheKey
	}
	if q.SafetyIdentifier != nil {
		req.SafetyIdentifier = *q.SafetyIdentifier
	}
	for _, def := range r.Tools.Definitions() {
		if !r.clientTools[def.Name] {
			mt := model.Tool{Name: def.Name, Description: def.Description, Parameters: def.Parameters,
				StrictForm: r.strictForm(def)}
			if g := def.Freeform; g != nil {
				mt.Freeform = &model.Freeform{Argument: g.Argument, Description: g.Description, Syntax: g.Syntax,
					Definition: g.Definition}
			}
			req.Tools = append(req.Tools, mt)
		}
	}
	for _, tool := range q.Tools {
		mt := model.Tool{Name: tool.Name, Parameters: tool.Parameters, Strict: tool.Strict}
		if tool.Description != nil {
			mt.Description = *tool.Description
		}
		req.Tools = append(req.Tools, mt)
	}
	return req
}

// cacheKey is the cache identity of a session at a provider. It is the same for
// all turns of the session, and says nothing about it.
func cacheKey(sessionID string) string {
	sum := sha256.Sum256([]byte(sessionID))
	return "holon-" + hex.EncodeToString(sum[:16])
}

// strictForm returns the schema of a tool as strict providers demand it, nil for
// a transport that has none and for a tool of others that has no such form.
func (r *runner) strictForm(def tools.Definition) json.RawMessage {
	if !r.takes.StrictTools {
		return nil
	}
	form, _ := def.StrictParameters() // without one, the model is sent the schema as it is
	return form
}

// sampler turns the events of one answer into stream events and items.
type sampler struct {
	*runner
	round  *round
	before rules  // as they were before the answer
	left   *int   // tokens that the answer may have; nil for any number
	asked  string // the model request, while it is open
	partial
	discarded []string // ids of the items of an answer that no later request has
	err       error    // why an answer that broke off could not be retracted
}

// partial is what is known of the answer so far.
type partial struct {
	open  model.EventKind // the Begin kind of the item that is open, 0 for none
	call  *ownCall        // call under construction that the container answers
	drop  bool            // the open call is surplus
	args  int             // bytes of arguments streamed of a client's call
	chars int             // bytes of text and arguments so far
	heard int             // bytes of all events so far
	raw   int             // bytes of raw reasoning of the open item
	facts int             // about reasoning so far
	spoke bool            // a message has more than blanks
	done  bool
}

// maxAnswer bounds all that a model says in one answer, calls of the container's
// tools included, in bytes.
const maxAnswer = 64 << 20

// take handles one model event. A transport is not trusted to send events in a legal order: an event out of place is a
// failure of the model.
func (s *sampler) take(ev model.Event) error {
	if err := s.check(ev); err != nil {
		return err
	}
	if s.floods(ev) {
		return ErrOutput
	}
	// Ends repeat or hide what was streamed.
	if ev.Kind != model.CallEnd && ev.Kind != model.ReasoningEnd {
		s.chars += len(ev.Text)
	}
	return s.dispatch(ev)
}

// dispatch passes an event on to what handles items of its kind.
func (s *sampler) dispatch(ev model.Event) error {
	switch ev.Kind {
	case model.MessageBegin, model.TextDelta, model.RefusalDelta, model.AnnotationAdded, model.PartEnd:
		return s.message(ev)
	case model.ReasoningBegin, model.SummaryDelta, model.SummaryPartEnd, model.ReasoningDelta, model.ReasoningEnd:
		return s.reasoning(ev)
	case model.CallBegin:
		return s.beginCall(ev)
	case model.CallDelta:
		return s.arguments(ev.Text)
	case model.CallEnd:
		return s.endCall(ev.Text)
	}
	return s.finish(ev) // model.Done: check lets nothing else through
}

func (s *sampler) message(ev model.Event) error {
	em := s.Emitter
	s.spoke = s.spoke || strings.ContainsFunc(ev.Text, shows)
	switch ev.Kind {
	case model.MessageBegin:
		if err := s.endItem(responses.PhaseCommentary); err != nil { // the answer is the last message
			return err
		}
		return em.BeginMessage(ev.Phase)
	case model.RefusalDelta:
		return em.Refusal(ev.Text)
	case model.PartEnd:
		return em.EndPart()
	case model.AnnotationAdded:
		if ev.Annotation != nil {
			em.Annotate(*ev.Annotation)
		}
		return nil
	}
	if len(ev.Logprobs) > 0 && s.Request.Includes(responses.IncludeLogprobs) {
		return em.TextLogprobs(ev.Text, ev.Logprobs)
	}
	return em.Text(ev.Text)
}

// shows reports whether a character is more than a blank.
func shows(r rune) bool { return unicode.IsGraphic(r) && !unicode.IsSpace(r) }

// floods counts an event and reports whether the model has said too much: a
// provider that never ends must not take the memory of the process.
func (s *sampler) floods(ev model.Event) bool {
	const each = 256 // of an item, a part or an annotation
	size := len(ev.Text) + each/4*len(ev.Logprobs)
	if ev.Annotation != nil {
		size += each + len(ev.Annotation.URL) + len(ev.Annotation.Title)
	}
	switch ev.Kind {
	case model.MessageBegin, model.ReasoningBegin, model.CallBegin, model.SummaryPartEnd, model.PartEnd:
		size += each
	}
	s.heard += size
	switch {
	case ev.Kind == model.ReasoningDelta ||
		ev.Kind == model.ReasoningEnd && !s.Request.Includes(responses.IncludeReasoning):
	case s.call != nil || s.drop || ev.Kind == model.CallEnd && s.args > 0: // not in the response, or counted before
	default:
		s.shown += size + escapes(ev.Text)
	}
	return s.shown > responses.MaxOutput || s.heard > maxAnswer
}

// escapes is by how many bytes text grows as a JSON string.
func escapes(text string) (n int) {
	for i := range len(text) {
		switch c := text[i]; {
		case c == '"' || c == '\\' || c == '\n' || c == '\t' || c == '\r':
			n++
		case c < ' ':
			n += 5
		}
	}
	return n
}

// check keeps track of the open item and refuses events out of place.
func (s *sampler) check(ev model.Event) error {
	next, fits := follow(s.open, ev)
	if s.done || !fits {
		return malformed(fmt.Sprintf("the model's events have no legal order: kind %d while %d is open", ev.Kind,
			s.open))
	}
	s.open = next
	return nil
}

// follow is the table of legal orders: it reports whether an event may come while an item is open, and what is open
// after it.
func follow(open model.EventKind, ev model.Event) (next model.EventKind, fits bool) {
	switch ev.Kind {
	case model.TextDelta, model.RefusalDelta, model.AnnotationAdded, model.PartEnd:
		return model.MessageBegin, open == 0 || open == model.MessageBegin
	case model.SummaryDelta, model.SummaryPartEnd, model.ReasoningDelta:
		return model.ReasoningBegin, open == 0 || open == model.ReasoningBegin
	case model.ReasoningEnd:
		return 0, open == model.ReasoningBegin
	case model.CallDelta:
		return open, open == model.CallBegin
	case model.CallEnd:
		return 0, open == model.CallBegin
	case model.MessageBegin, model.ReasoningBegin, model.CallBegin: // only a call must be ended by its own event
		return ev.Kind, open != model.CallBegin
	case model.Done:
		return open, open != model.CallBegin || ev.Stop == model.StopMaxTokens || ev.Stop == model.StopContentFilter
	}
	return open, false
}

func malformed(message string) error {
	return &model.Error{Kind: model.KindProtocol, Message: message}
}

// endItem closes what is open on the stream and takes it into the history. An
// open message without a phase gets the given one.
func (s *sampler) endItem(phase responses.Phase) error {
	if phase != "" {
		s.Emitter.DefaultPhase(phase)
	}
	return s.end("")
}

// end closes what is open on the stream. The opaque content of reasoning goes into the history, because the provider
// wants it back. A part of an answer is not in the history: providers refuse reasoning without what followed it.
func (s *sampler) end(encrypted string) error {
	before := len(s.Emitter.Response().Output)
	if err := s.Emitter.EndItem(); err != nil {
		return err
	}
	output := s.Emitter.Response().Output
	if len(output) == before {
		return nil
	}
	thought, ok := output[before].(*responses.Reasoning)
	if !ok {
		s.round.items = append(s.round.items, output[before])
		return nil
	}
	kept := *thought
	kept.EncryptedContent = encrypted
	s.round.items = append(s.round.items, &kept)
	return s.thought(&kept)
}

// keep takes the items of the round into the history.
func (s *sampler) keep() error {
	items := s.round.items
	s.round.items = nil
	for _, item := range items {
		if err := s.add(item); err != nil {
			return err
		}
	}
	return nil
}

// warnOfReason warns of an answer that ended for a reason that is not known; "" is none.
func (s *sampler) warnOfReason(reason string) error {
	if reason == "" {
		return nil
	}
	return s.Journal.Event(s.Scope.Warning(turns.Notice{Code: "unknown_finish_reason", Component: "model",
		Recoverable: true, Message: fmt.Sprintf("the provider ended its answer for the reason %.64q, which is not known; "+
			"what came counts", reason)}))
}

// finish takes the end of the attempt: the last message is the answer unless
// calls follow it.
func (s *sampler) finish(ev model.Event) error {
	s.done = true
	s.round.stop = ev.Stop
	s.spend(ev.Usage)
	if err := s.warnOfReason(ev.Reason); err != nil {
		return err
	}
	if s.open == model.CallBegin && s.call == nil && !s.drop {
		s.round.calls = nil // a client's call that was cut short ends the turn
	}
	if ev.Stop != model.StopEnd && len(s.round.calls) == 0 {
		return s.keep() // the emitter closes the open item as incomplete
	}
	phase := responses.PhaseFinalAnswer
	s.round.empty = len(s.round.calls) == 0 && !s.handing() && (!s.spoke || ev.Uncalled)
	if len(s.round.calls) > 0 || s.round.handedOver > 0 || s.round.empty {
		phase = responses.PhaseCommentary
	}
	if err := s.endItem(phase); err != nil {
		return err
	}
	if s.round.empty {
		s.discard()
	}
	return s.keep()
}
