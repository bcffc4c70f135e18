package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// transports make bindings without keeping secrets.
type transports struct{ machine *scheduler.Scheduler }

func (x transports) Forget(context.Context) error { return nil }

func (x transports) CreateTrigger(ctx context.Context, agentID, scheme, secret string) (ledger.Trigger, string, error) {
	return x.machine.CreateTrigger(ctx, scheduler.NewTrigger{ID: scheduler.NewTriggerID(), AgentID: agentID, Signature: scheme})
}

// Verify verifies with the one secret of the tests.
func (x transports) Verify(t ledger.Trigger, h http.Header, body []byte) (signature.Delivery, error) {
	return signature.Verify(t.Signature, "secret-of-tests", h, body, time.Now())
}

func (x transports) Bind(ctx context.Context, n scheduler.NewBinding) (scheduler.Bound, error) {
	n.TokenHash = scheduler.TokenHash("relay-token")
	b, err := x.machine.Bind(ctx, n.OperatorBinding)
	return scheduler.Bound{OperatorBinding: b, SigningSecret: "whsec_x", IngressToken: "relay-token"}, err
}

func (x transports) Revoke(ctx context.Context, agentID, id string) (ledger.OperatorBinding, error) {
	return x.machine.RevokeBinding(ctx, agentID, id)
}

func bound(t *testing.T, limits control.Limits) *rig {
	r := newRig(t, limits, tcp())
	r.stop()
	r.options.Transports = transports{r.machine}
	r.server = control.New(r.options)
	r.run(tcp())
	out := must(r.client().Bind(t.Context(), "main", wire.Bind{BindingID: "chat", CallbackURL: "https://example.org",
		ActorID: "U1", Ingress: true}))(t)
	expect.Equal(t, "secrets", out.SigningSecret+" "+out.IngressToken, "whsec_x relay-token")
	return r
}

// ingress is a message of a relay, through the TCP port.
func ingress(agent, token, body string) request {
	return request{method: "POST", path: "/control/agents/" + agent + "/operator-ingress", body: body, tcp: true,
		header: map[string]string{"Authorization": token, "Idempotency-Key": "m1"}}
}

// Messages of the operator come by an active binding alone, with its token: neither the control token nor the Unix
// socket stands for it, and its token opens nothing else.
func TestOperatorIngress(t *testing.T) {
	t.Parallel()
	r := bound(t, control.Limits{})
	d := r.described()
	const relay = "Bearer relay-token"
	const good = `{"text":"go on","actor_id":"U1","binding_id":"chat","reply_route_id":"thread-7"}`
	local := ingress("main", "", good)
	local.tcp = false
	for _, c := range []struct {
		name        string
		q           request
		status      int
		code, param string
	}{
		{"no token", ingress("main", "", good), 401, "unauthorized", "binding_id"},
		{"the control token", ingress("main", "Bearer "+token, good), 401, "unauthorized", "binding_id"},
		{"the Unix socket", local, 401, "unauthorized", "binding_id"},
		{"another scheme", ingress("main", "Basic relay-token", good), 401, "unauthorized", "binding_id"},
		{"another binding", ingress("main", relay, strings.Replace(good, "chat", "mail", 1)), 401, "unauthorized", "binding_id"},
		{"another actor", ingress("main", relay, strings.Replace(good, "U1", "U2", 1)), 403, "forbidden", "actor_id"},
		{"no text", ingress("main", relay, strings.Replace(good, "go on", " ", 1)), 400, "missing_field", "text"},
		{"a long route", ingress("main", relay, strings.Replace(good, "thread-7", strings.Repeat("x", 300), 1)), 400,
			"invalid_value", "reply_route_id"},
		{"a priority", ingress("main", relay, strings.Replace(good, `{`, `{"priority":"interject",`, 1)), 400, "unknown_field",
			"priority"},
	} {
		r.ask(d, c.q).is(t, c.name, c.status, c.code, c.param)
	}
	expect.Equal(t, "queued", len(must(r.client().Queue(t.Context(), "main", 0))(t)), 0)
	other := get("/agents/main/status")
	other.tcp, other.header = true, map[string]string{"Authorization": relay}
	r.ask(d, other).is(t, "the token elsewhere", 401, "unauthorized", "Authorization")

	var first, again wire.Enqueued
	for _, into := range []*wire.Enqueued{&first, &again} {
		a := r.ask(d, ingress("main", relay, good))
		expect.Equal(t, "status", a.status, 200)
		expect.NoError(t, json.Unmarshal([]byte(a.body), into))
	}
	expect.Equal(t, "replayed", fmt.Sprint(again.Replayed, again.MessageID), fmt.Sprint(true, first.MessageID))
	m := must(ledger.Read(t.Context(), r.store, func(v ledger.View) (ledger.Message, error) {
		return v.Message(first.MessageID)
	}))(t)
	expect.Equal(t, "provenance", fmt.Sprint(m.Surface, m.AdmissionContext, m.Authority, m.Origin.ActorID),
		fmt.Sprint(ledger.SurfaceRemote, ledger.OperatorTransport, ledger.OperatorInstruction, "U1"))
	page := r.ask(d, get("/agents/main/events?limit=500"))
	expect.Contains(t, "events", page.body, `"transport":"operator"`)
	expect.Contains(t, "events", page.body, `"reply_route":"thread-7"`)

	must(r.client().RevokeBinding(t.Context(), "main", "chat"))(t)
	r.ask(d, ingress("main", relay, good)).is(t, "a binding that was revoked", 401, "unauthorized", "binding_id")
	for _, path := range []string{"/agents/main/operator-bindings", "/agents/main/status"} {
		if a := r.ask(d, get(path)); strings.Contains(a.body, scheduler.TokenHash("relay-token")) {
			t.Errorf("%s shows the hash of the token: %s", path, a.body)
		}
	}
}

// A relay that went wild takes its own budget.
func TestOperatorIngressIsBounded(t *testing.T) {
	t.Parallel()
	r := bound(t, control.Limits{Deliveries: 2})
	d := r.described()
	q := ingress("main", "Bearer relay-token", `{"text":"go on","actor_id":"U1","binding_id":"chat"}`)
	for range 2 {
		expect.Equal(t, "status", r.ask(d, q).status, 200)
	}
	r.ask(d, q).is(t, "too many", 429, "busy", "")
}

// The status of an agent and its list of notifications have what became of deliveries.
func TestNoticesHaveDeliveries(t *testing.T) {
	t.Parallel()
	r := bound(t, control.Limits{})
	expect.NoError(t, r.machine.Notify(t.Context(), "main", "look"))
	list := must(r.client().Notifications(t.Context(), "main", 0))(t)
	if len(list.Data) != 1 || len(list.Data[0].Deliveries) != 1 {
		t.Fatalf("notices %+v", list)
	}
	id := list.Data[0].Deliveries[0].ID
	_, ok, err := r.machine.Submit(t.Context(), id)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	expect.NoError(t, r.machine.Submitted(t.Context(), id, "r-1", ""))
	status := must(r.client().Status(t.Context(), "main"))(t)
	expect.Equal(t, "status", fmt.Sprint(status.Deliveries[0].ID, status.Deliveries[0].Status, status.Deliveries[0].Attempts),
		fmt.Sprint(id, ledger.DeliveryAccepted, 1))
	r.ask(r.described(), get("/agents/main/notifications?limit=1"))
}

// A delivery to a trigger with a signature is answered 401 when it is not verified, and what Slack asks of a URL is
// answered.
func TestSignedDeliveries(t *testing.T) {
	t.Parallel()
	r := bound(t, control.Limits{})
	d, c := r.described(), r.client()
	path := func(scheme string) string {
		made := must(c.CreateTrigger(t.Context(), "main", wire.NewTrigger{Signature: scheme, Secret: "secret-of-tests"}))(t)
		expect.Equal(t, "signature", made.Trigger.Signature, scheme)
		return made.TriggerURL[strings.Index(made.TriggerURL, "/callbacks/"):]
	}
	send := func(path, token, body string) answer {
		return r.ask(d, request{method: "POST", path: path, body: body, tcp: true,
			header: map[string]string{"Authorization": "", "X-Gitlab-Token": token, "Content-Type": "application/json"}})
	}
	gitlab := path("gitlab")
	send(gitlab, "another", `{}`).is(t, "another secret", 401, "signature_invalid", "X-Gitlab-Token")
	for _, replayed := range []bool{false, true} {
		a := send(gitlab, "secret-of-tests", `{"n":1}`)
		var got wire.Delivered
		expect.NoError(t, json.Unmarshal([]byte(a.body), &got))
		expect.Equal(t, "replayed", got.Result.Replayed, replayed)
	}
	send(path("slack"), "", `{}`).is(t, "no signature", 401, "signature_invalid", "X-Slack-Signature")
}
