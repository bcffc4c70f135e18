package turn

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"holon/agentd/compaction"
	"holon/agentd/model"
	"holon/responses"
	"holon/responses/turns"
)

// When a conversation is compacted and how far, in parts of the room that the
// window leaves for it. Below the trigger there is a margin for what an estimate
// is wrong by; far below it, so that compactions are rare and caches live long.
const (
	triggerPart = 0.9
	targetPart  = 0.5
	fullPart    = 0.65 // above it, results that became receipts have not made enough room
	gainPart    = 0.1  // what a summary has to make room for, at least
	tailPart    = 0.2  // of a summarised conversation: its latest items, word for word
	wordsPart   = 0.15 // likewise: what the user said before
	keptWords   = 20_000
)

// certainly is by how much an estimate has to exceed a firm window before a
// request is not even sent: more than estimates are wrong by.
const certainly = 1.3

// view is the part of a conversation that the model is sent. It is append-only between compactions. Each of these is
// kept with the conversation, which itself stays whole: every later turn begins with what the latest one left, also
// after a restart.
//
// A compaction shortens results of the container's tools, which no client has seen. Only if truncation is auto, and
// that was not enough, it replaces old items of all kinds by a summary (Open Responses, "truncation").
type view struct {
	r       *runner
	visible compaction.View
	size    int // estimate of visible
	rest    int // estimate of the rest of a request
	gauge   model.Gauge
	known   cached   // what the provider has of earlier requests
	now     question // the present request
	sent    string   // fingerprint of the frame of the present request
	asked   int      // items of the conversation when the model was last asked
	heard   int      // how many of them it has answered
	since   int      // where the latest words of the user begin
	again   int      // the round that a provider found too long

	compacting bool // a compaction has begun and not ended
	stripped   bool // pictures and files were left out of the present request
	given      map[*responses.ToolCall]bool
}

// newView returns the view of the conversation so far.
func newView(r *runner) *view {
	v := &view{r: r, gauge: r.Memory.gauge, known: r.Memory.known, heard: len(r.History), since: requestStart(r)}
	for _, item := range r.Input {
		if call, ok := item.(*responses.ToolCall); ok { // the client's words, which are never shortened
			if v.given == nil {
				v.given = make(map[*responses.ToolCall]bool)
			}
			v.given[call] = true
		}
	}
	v.visible = v.receipts().View(r.input)
	if v.gauge == (model.Gauge{}) {
		v.gauge = model.NewGauge(cmp.Or(v.visible.Scale, r.Window.Scale))
	}
	v.size = model.EstimateItems(v.visible.Items)
	r.view = v
	v.rest = model.Estimate(r.modelRequest()) - v.size
	return v
}

// requestStart returns where the messages of the present request begin in the conversation, or the latest message of
// the user before it when the request has none: the turn goes on with that message.
func requestStart(r *runner) int {
	fromUser := func(item responses.Item) bool {
		m, ok := item.(*responses.Message)
		return ok && m.Role == responses.RoleUser && !responses.IsContext(m)
	}
	if slices.ContainsFunc(r.Input, fromUser) {
		return len(r.History)
	}
	for i, item := range slices.Backward(r.History) {
		if fromUser(item) {
			return i
		}
	}
	return len(r.History)
}

// add tells the model of the latest item of the conversation.
func (v *view) add(item responses.Item) {
	v.visible.Add(item, len(v.r.input)-1)
	v.size += model.EstimateItem(item)
}

// tokens is the estimate of the next request.
func (v *view) tokens() int { return v.gauge.Tokens(v.rest + v.size) }

// capacity is how many tokens the next request may have, 0 for any number.
func (v *view) capacity() int { return v.r.Window.Capacity(v.r.tokensLeft()) }

func part(room int, p float64) int { return int(p * float64(room)) }

// fit makes room for the next round before the model is asked. The error is a
// *model.Error of kind context_length when the request cannot but be refused, and
// of kind cancelled when ctx ended meanwhile; it is anything else when the journal failed.
func (r *runner) fit(ctx context.Context) error {
	v := r.view
	room := v.capacity()
	if room == 0 || v.tokens() <= part(room, triggerPart) {
		return nil
	}
	if _, err := v.compact(ctx, turns.TriggerBudget, room, part(room, targetPart)); err != nil {
		return err
	}
	if ctx.Err() != nil { // nothing begins any more
		return model.Cancelled(ctx)
	}
	if w := r.Window; w.Firm && float64(v.tokens()) > certainly*float64(w.Context) {
		return v.tooLong()
	}
	return nil
}

// tooLong is the error of a conversation that does not fit into a window.
func (v *view) tooLong() error {
	what, remedy := "conversation", `send less of it, compact it with POST /responses/compact, or allow that by `+
		`"truncation":"auto"`
	if v.r.Request.Truncation == "auto" {
		what, remedy = "shortened conversation", "what a request brings is never shortened: send less of it"
	}
	return &model.Error{
		Kind: model.KindContextLength, Code: responses.CodeContextLength,
		Message: fmt.Sprintf("the %s has about %d tokens and the model takes %d; %s", what, v.tokens(),
			v.r.Window.Context, remedy),
		Diagnostics: &model.Diagnostics{Stage: model.StageSelect},
	}
}

// shorten makes room in a conversation that the provider found too long, where
// the request allows that, and reports whether to ask again: once a round, when
// the conversation became shorter and nothing of an answer is out.
func (r *runner) shorten(ctx context.Context, err error) (again bool, broken error) {
	v := r.view
	failed, ok := errors.AsType[*model.Error](err)
	if !ok || failed.Kind != model.KindContextLength || r.Request.Truncation != "auto" || r.Emitter.Open() ||
		v.again == r.result.Rounds {
		return false, nil
	}
	v.again = r.result.Rounds
	// The provider's error counts more than what is known of its model.
	room := v.tokens()
	if known := v.capacity(); known > 0 {
		room = min(room, known)
	}
	return v.compact(ctx, turns.TriggerRemote, room, part(room, targetPart))
}

// compact shortens the view to about target tokens, or as far as it may, and
// records that. It reports whether the view became shorter. The error is the
// journal's.
func (v *view) compact(ctx context.Context, trigger string, room, target int) (shorter bool, err error) {
	done := &turns.Compaction{Trigger: trigger, Round: max(1, v.r.result.Rounds), TokensBefore: v.tokens(),
		Preserved: turns.Preserved{Actions: "all", Incidents: "all", Evidence: "all"}}
	done.ToolResults = v.shortenResults(v.gauge.Estimated(v.tokens() - target))
	limit := part(room, fullPart)
	if trigger == turns.TriggerRemote {
		limit = target
	}
	if v.r.Request.Truncation == "auto" && v.tokens() > limit {
		if err := v.summarize(ctx, done, room); err != nil {
			failed := v.failed(done, err)
			done.SummaryUsage, v.compacting = nil, false
			if err := v.r.Journal.Event(failed); err != nil {
				return false, err
			}
		}
	}
	if done.ToolResults == 0 && done.SummarizedItems == 0 {
		return false, nil
	}
	return true, v.record(v.counted(done, room))
}

// shortenResults replaces old results of tools by receipts and returns how many.
func (v *view) shortenResults(need int) int {
	if need <= 0 {
		return 0
	}
	told, calls, saved := v.receipts().Shorten(v.visible.Items, need)
	if calls > 0 {
		v.visible.Shortened(told)
		v.size -= saved
	}
	return calls
}

// receipts says how results are shortened.
func (v *view) receipts() compaction.Receipts {
	return compaction.Receipts{Families: v.r.Families, Spare: func(c *responses.ToolCall) bool {
		return v.given[c] && v.r.Request.Truncation != "auto"
	}}
}

// summarize replaces all but the latest items by a summary. Messages of agentd itself stay, because they are not
// repeated; what the user says in this turn stays too, and so does everything that the model has not answered yet.
// It does nothing where a summary would make too little room.
func (v *view) summarize(ctx context.Context, done *turns.Compaction, room int) error {
	var context []responses.Item
	for _, item := range v.visible.Items {
		if responses.IsContext(item) {
			context = append(context, item)
		}
	}
	parts := compaction.Split(v.visible.Items, v.budget(room))
	if v.size-model.EstimateItems(slices.Concat(context, parts.Kept, parts.After)) < v.gauge.Estimated(
		part(room, gainPart)) {
		return nil
	}
	s := compaction.Summarizer{Transport: v.r.Model.Transport, Model: v.r.Model.Name,
		Window: v.gauge.Estimated(part(room, triggerPart))}
	s.Window = min(s.Window, compaction.DefaultWindow)
	if err := v.begin(done); err != nil {
		return err
	}
	watch := &attempts{observer: observer{runner: v.r}}
	s.Watch = func(tokens int) model.Observer {
		watch.tokens = v.gauge.Tokens(tokens)
		return watch
	}
	summary, usage, err := s.Summarize(ctx, parts.Head)
	v.r.result.Usage = v.r.result.Usage.Add(usage)
	done.SummaryUsage = turns.Tokens(usage)
	if err := cmp.Or(watch.err, err); err != nil {
		return err
	}
	shorter := v.visible.Summarized(context, parts, summary)
	size := model.EstimateItems(shorter.Items)
	if size >= v.size {
		return &model.Error{Kind: model.KindProtocol, Code: responses.CodeModelError,
			Message: "the summary is not shorter than what it stands for"}
	}
	done.SummarizedItems = len(parts.Head)
	v.visible, v.size = shorter, size
	return nil
}

// begin records that a compaction has begun, unless that was done.
func (v *view) begin(done *turns.Compaction) error {
	if v.compacting {
		return nil
	}
	v.compacting = true
	return v.r.Journal.Event(v.r.Scope.Event(turns.CompactionBegun,
		turns.CompactionStart{Trigger: done.Trigger, Round: done.Round, TokensBefore: done.TokensBefore}))
}

// budget is what a summary leaves word for word.
func (v *view) budget(room int) compaction.Budget {
	b := compaction.Budget{
		Messages: v.gauge.Estimated(min(keptWords, part(room, wordsPart))),
		Tail:     v.gauge.Estimated(part(room, tailPart)),
	}
	present := make(map[responses.Item]bool)
	for i, place := range v.visible.Places {
		if place >= v.heard {
			b.New++
		}
		present[v.visible.Items[i]] = place >= v.since
	}
	b.Keep = func(item responses.Item) bool { return present[item] }
	return b
}

// counted fills in what is known after a compaction.
func (v *view) counted(done *turns.Compaction, room int) *turns.Compaction {
	v.visible.Epoch++
	done.Epoch, done.ContextWindow = v.visible.Epoch, v.r.Window.Context
	done.TokensAllowed, done.TokensAfter = room, v.tokens()
	return done
}

// keep keeps what the model is told with the conversation, for later turns.
func (v *view) keep() error {
	v.visible.Scale = v.gauge.Scale()
	item, err := v.visible.Item()
	if err != nil {
		return err
	}
	v.r.input = append(v.r.input, item)
	return v.r.Journal.Add(item)
}

// record keeps what the compaction left, and records it.
func (v *view) record(done *turns.Compaction) error {
	if err := v.keep(); err != nil {
		return err
	}
	if err := v.begin(done); err != nil {
		return err
	}
	v.compacting = false
	return v.r.Journal.Event(v.r.Scope.Event(turns.ContextCompacted, *done))
}

// failed is the event of a summary that could not be made.
func (v *view) failed(done *turns.Compaction, err error) turns.RuntimeEvent {
	p := turns.CompactionFailure{Trigger: done.Trigger, Round: done.Round, FailureCategory: "unknown",
		Message: err.Error(), SummaryUsage: done.SummaryUsage}
	if failed, ok := errors.AsType[*model.Error](err); ok {
		p.FailureCategory, p.Message = string(failed.Kind), failed.Message
	}
	return v.r.Scope.Event(turns.CompactionFailed, p)
}
