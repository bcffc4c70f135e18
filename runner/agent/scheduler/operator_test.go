package scheduler_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holon/runner/agent/record"
	"holon/runner/agent/rules"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// bind makes an active binding of an agent, whose ingress has its id as the token.
func (w *world) bind(agent, id string) {
	_, err := w.m.Bind(w.ctx, ledger.OperatorBinding{ID: id, AgentID: agent, Transport: ledger.TransportWebhook,
		ActorID: "actor-" + id, Ingress: true, TokenHash: scheduler.TokenHash(id)})
	w.must(err)
}

// routed are where the notifications of an agent go, sorted.
func (w *world) routed(agent string) (list []string) {
	w.must(w.store.View(w.ctx, func(v ledger.View) error {
		all, err := v.Deliveries(agent, 0)
		for _, d := range all {
			list = append(list, d.BindingID+" "+d.RouteID)
		}
		return err
	}))
	slices.Sort(list)
	return list
}

// Only the operator of an active binding is admitted, with its token, to its agent.
func TestAdmitOperator(t *testing.T) {
	for name, c := range map[string]struct {
		binding, token, agent, actor string
		want                         state.Code
	}{
		"the operator":           {"phone", "phone", "alpha", "actor-phone", ""},
		"another actor":          {"phone", "phone", "alpha", "actor-chat", scheduler.CodeForbidden},
		"no actor":               {"phone", "phone", "alpha", "", scheduler.CodeForbidden},
		"another token":          {"phone", "chat", "alpha", "actor-phone", scheduler.CodeUnauthorized},
		"no token":               {"phone", "", "alpha", "actor-phone", scheduler.CodeUnauthorized},
		"another agent":          {"phone", "phone", "beta", "actor-phone", scheduler.CodeUnauthorized},
		"no agent":               {"phone", "phone", "nobody", "actor-phone", scheduler.CodeUnauthorized},
		"an unknown binding":     {"none", "none", "alpha", "actor-none", scheduler.CodeUnauthorized},
		"one that was revoked":   {"gone", "gone", "alpha", "actor-gone", scheduler.CodeUnauthorized},
		"one without an ingress": {"mute", "", "alpha", "actor-mute", scheduler.CodeUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			for _, id := range []string{"phone", "chat", "gone"} {
				w.bind("alpha", id)
			}
			_, err := w.m.RevokeBinding(w.ctx, "alpha", "gone")
			w.must(err)
			_, err = w.m.Bind(w.ctx, ledger.OperatorBinding{ID: "mute", AgentID: "alpha", Transport: ledger.TransportWebhook,
				ActorID: "actor-mute"})
			w.must(err)
			a, err := w.m.AdmitOperator(w.ctx, c.binding, c.token, "thread-7", ledger.Message{AgentID: c.agent,
				Origin: ledger.Origin{ActorID: c.actor}, Body: ledger.Body{Type: "text", Text: "go on"}})
			if c.want != "" {
				if !state.IsCode(err, c.want) {
					t.Fatalf("%v, want %s", err, c.want)
				}
				return
			}
			w.must(err)
			m, err := ledger.Read(w.ctx, w.store, func(v ledger.View) (ledger.Message, error) { return v.Message(a.MessageID) })
			w.must(err)
			expect.Equal(t, "provenance", fmt.Sprint(m.Kind, m.Authority, m.Surface, m.AdmissionContext), fmt.Sprint(
				ledger.KindOperatorPrompt, ledger.OperatorInstruction, ledger.SurfaceRemote, ledger.OperatorTransport))
			expect.Equal(t, "references", m.SourceRefs[rules.RefBinding]+" "+m.SourceRefs[rules.RefReplyRoute], "phone thread-7")
		})
	}
}

// No other way admits a message as one of a transport.
func TestAdmitNeedsABinding(t *testing.T) {
	w := open(t)
	m := prompt("go on")
	m.Surface, m.AdmissionContext = ledger.SurfaceRemote, ledger.OperatorTransport
	w.refused(scheduler.CodeInvalidMessage)(w.m.Admit(w.ctx, m))
}

// A notification goes to the binding by which the prompt of its turn came, else to those of its agent, else to those of
// the default agent.
func TestDeliveryRoutes(t *testing.T) {
	w := open(t)
	w.must(w.m.Notify(w.ctx, "beta", "none"))
	expect.Equal(t, "without bindings", len(w.routed("beta")), 0)
	w.bind("alpha", "phone")
	w.must(w.m.Notify(w.ctx, "beta", "of the default agent"))
	expect.Equal(t, "of the default agent", fmt.Sprint(w.routed("beta")), "[phone phone]")
	w.bind("alpha", "chat")
	w.must(w.m.Notify(w.ctx, "alpha", "own"))
	expect.Equal(t, "own", fmt.Sprint(w.routed("alpha")), "[chat chat phone phone]")
	_, err := w.m.AdmitOperator(w.ctx, "chat", "chat", "thread-7", ledger.Message{AgentID: "alpha",
		Origin: ledger.Origin{ActorID: "actor-chat"}, Body: ledger.Body{Type: "text", Text: "go on"}})
	w.must(err)
	w.must(w.begin("alpha", false))
	w.must(w.m.Notify(w.ctx, "alpha", "in its turn"))
	expect.Equal(t, "back", fmt.Sprint(w.routed("alpha")), "[chat chat chat thread-7 phone phone]")
	w.must(w.finish("alpha", false))
	w.check()
}

// A child has no route: its parent's operator gets what only an operator can change.
func TestAChildHasNoRoute(t *testing.T) {
	w := open(t)
	w.bind("alpha", "phone")
	w.admit(prompt("delegate"))
	w.must(w.begin("alpha", false))
	id := w.spawn("alpha", "1", "one").Agent.ID
	w.refused(scheduler.CodeAgentPrivate)(w.m.Bind(w.ctx, ledger.OperatorBinding{ID: "own", AgentID: id,
		Transport: ledger.TransportWebhook}))
	w.must(w.m.Notify(w.ctx, id, "look"))
	expect.Equal(t, "of the child", len(w.routed(id))+len(w.routed("alpha")), 0)
	c, ok, err := w.m.Claim(w.ctx, id)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Permanent: true, Turn: ledger.Turn{Failure: &ledger.Failure{
		Code: "missing_credentials", Summary: "there is no key"}}})
	expect.Equal(t, "by its parent", fmt.Sprint(w.routed(id), w.routed("alpha")), "[] [phone phone]")
	w.check()
}

// What the runtime notifies its operator of, once each.
func TestProducers(t *testing.T) {
	needs, ready := ledger.PlanNeedsInput, ledger.PlanReady
	for name, do := range map[string]func(w *world) string{
		"a plan that needs input": func(w *world) string {
			item, _, err := w.m.CreateWork(w.ctx, scheduler.NewWork{AgentID: "alpha", Key: "k", Objective: "release it"})
			w.must(err)
			for i, status := range []*ledger.PlanStatus{&needs, &needs} {
				_, err := w.m.UpdateWork(w.ctx, "alpha", item.ID, fmt.Sprint("u", i), scheduler.WorkChange{PlanStatus: status})
				w.must(err)
			}
			_, err = w.m.UpdateWork(w.ctx, "alpha", item.ID, "u2", scheduler.WorkChange{PlanStatus: &ready})
			w.must(err)
			return "release it"
		},
		"a message that is given up": func(w *world) string {
			w.admit(prompt("go on"))
			c, ok, err := w.m.Claim(w.ctx, "alpha")
			if err != nil || !ok {
				w.t.Fatalf("%v %v", ok, err)
			}
			w.settle(c.Attempt.ID, scheduler.End{NotBegun: true, Refused: true, Turn: ledger.Turn{Failure: &ledger.Failure{
				Code: "invalid_input", Summary: "no model takes it"}}})
			return "no model takes it"
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := open(t)
			w.bind("alpha", "phone")
			want := do(w)
			list := w.notifications()
			expect.Equal(t, "notifications", len(list), 1)
			expect.Contains(t, "message", list[0].Message, want)
			expect.Equal(t, "deliveries", len(w.routed("alpha")), 1)
			w.check()
		})
	}
}

// Each attempt is recorded before it is made, and the last one ends the delivery whatever becomes of it.
func TestDeliveryAttempts(t *testing.T) {
	w := open(t)
	w.bind("alpha", "phone")
	w.must(w.m.Notify(w.ctx, "alpha", "look"))
	due := func() []ledger.Delivery {
		list, err := ledger.Read(w.ctx, w.store, func(v ledger.View) ([]ledger.Delivery, error) {
			return v.DueDeliveries(w.now)
		})
		w.must(err)
		return list
	}
	id := due()[0].ID
	for n := range rules.MaxTries {
		sub, ok, err := w.m.Submit(w.ctx, id)
		w.must(err)
		expect.Equal(t, "attempt", fmt.Sprint(ok, sub.Delivery.Attempts, sub.Notification.Message, sub.Binding.ID),
			fmt.Sprint(true, n+1, "look", "phone"))
		expect.Equal(t, "due", len(due()), 0)
		w.now = w.now.Add(5 * time.Minute) // and nothing is recorded of its end
		expect.Equal(t, "due again", len(due()), 1)
	}
	_, ok, err := w.m.Submit(w.ctx, id)
	w.must(err)
	expect.Equal(t, "one more", ok, false)
	e := w.newest(record.Class(record.DeliveryCompleted))
	expect.Equal(t, "level", e.Level, record.LevelActionRequired)
	expect.Contains(t, "event", string(e.Data), ledger.DeliveryFailed)
	w.must(w.m.Submitted(w.ctx, id, "late", "")) // changes nothing any more
	d, err := ledger.Read(w.ctx, w.store, func(v ledger.View) (ledger.Delivery, error) { return v.Delivery(id) })
	w.must(err)
	expect.Equal(t, "status", d.Status, ledger.DeliveryFailed)
	w.check()
}

// The deliveries of a binding that the operator revoked end without asking for an action.
func TestRevokedBindingAsksForNothing(t *testing.T) {
	w := open(t)
	w.bind("alpha", "phone")
	w.must(w.m.Notify(w.ctx, "alpha", "look"))
	due, err := ledger.Read(w.ctx, w.store, func(v ledger.View) ([]ledger.Delivery, error) { return v.DueDeliveries(w.now) })
	w.must(err)
	_, err = w.m.RevokeBinding(w.ctx, "alpha", "phone")
	w.must(err)
	_, ok, err := w.m.Submit(w.ctx, due[0].ID)
	w.must(err)
	expect.Equal(t, "an attempt", ok, false)
	e := w.newest(record.Class(record.DeliveryCompleted))
	expect.Equal(t, "level", e.Level, record.LevelTrace)
	expect.Contains(t, "event", string(e.Data), ledger.DeliveryFailed)
	w.check()
}
