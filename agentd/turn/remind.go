package turn

import (
	"slices"

	"holon/agentd/model"
	"holon/agentd/tools"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
)

// reminding says when the model is sent the reminder of the request (responses.Reminder), as the last item of one
// round's input. Only that request has it: neither the conversation, nor the stream, nor a later request.
type reminding struct {
	responses.Reminder
	renewed int // round of the latest result that renewed it, 0 for none
	looked  int // round in which it was due last since then, 0 for none
}

func remindingOf(q *responses.Request) reminding {
	if q.Holon.Reminder == nil {
		return reminding{}
	}
	return reminding{Reminder: *q.Holon.Reminder}
}

// renew takes what a result says of the reminder. Rounds count from the next one on.
func (m *reminding) renew(o tools.Outcome, round int) {
	if o.Directive.Reminder == nil || o.Canonical.Error != nil {
		return
	}
	m.Text, m.renewed, m.looked = visible.Clip(*o.Directive.Reminder, responses.MaxReminder), round, 0
}

// due reports whether a round is to have the reminder: enough rounds were completed since it was renewed, and since it
// was due last. A round that is asked for again, because its request was too long, goes without.
func (m *reminding) due(round int) bool {
	if m.Text == "" || m.Rounds < 1 || round-1-m.renewed < m.Rounds {
		return false
	}
	return m.looked == 0 || round-m.looked >= max(1, m.CooldownRounds)
}

// remind adds the reminder to the request of a round in which it is due, unless that leaves too little room for it.
func (r *runner) remind(req *model.Request) error {
	m, v, round := &r.reminder, r.view, r.result.Rounds
	if !m.due(round) {
		return nil
	}
	m.looked = round
	item := &responses.Message{ID: responses.NewID(responses.PrefixMessage), Status: responses.ItemCompleted,
		Role: responses.RoleDeveloper, Content: []responses.Part{responses.InputText(m.Text)}}
	size := model.EstimateItem(item)
	tokens := v.gauge.Tokens(v.rest + v.size + size)
	fact := turns.Reminded{Round: round, RoundsSince: round - 1 - m.renewed, EstimatedTokens: v.gauge.Tokens(size)}
	if room := v.capacity(); room > 0 && tokens > part(room, triggerPart) {
		return r.Journal.Event(r.Scope.Event(turns.ReminderSkipped, fact))
	}
	req.Input = append(slices.Clip(req.Input), item)
	v.alone(size)
	return r.Journal.Event(r.Scope.Event(turns.ReminderInjected, fact))
}
