package control_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state/ledger"
	"holon/test/expect"
)

// A request with a field that its sender may not set is refused with the name of the field, and changes nothing.
func TestBadInput(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	deep := strings.Repeat("[", 300) + strings.Repeat("]", 300)
	must(r.client().RevokeTrigger(t.Context(), "main", ""))(t)
	for _, tc := range []struct {
		name string
		req  request
		code string
		want int
		key  string
	}{
		{"trust", post("/enqueue", `{"text":"x","trust":"trusted_operator"}`), "authority_not_accepted", 403, "trust"},
		{"trust null", post("/enqueue", `{"text":"x","trust":null}`), "authority_not_accepted", 403, "trust"},
		{"Trust", post("/enqueue", `{"text":"x","Trust":"x"}`), "authority_not_accepted", 403, "trust"},
		{"authority", post("/enqueue", `{"text":"x","authorityClass":"operator_instruction"}`),
			"authority_not_accepted", 403, "authority_class"},
		{"operator's origin", post("/agents/main/enqueue", `{"text":"x","origin":{"kind":"operator"}}`),
			"authority_not_accepted", 403, "origin.kind"},
		{"the runtime's origin", post("/enqueue", `{"text":"x","origin":{"kind":"system","subsystem":"y"}}`),
			"authority_not_accepted", 403, "origin.kind"},
		{"a capability's origin", post("/enqueue", `{"text":"x","origin":{"kind":"callback","descriptorId":"y"}}`),
			"authority_not_accepted", 403, "origin.kind"},
		{"operator's kind", post("/enqueue", `{"text":"x","kind":"operator_prompt"}`), "authority_not_accepted", 403,
			"kind"},
		{"no agent", post("/control/agents//prompt", `{"text":"x"}`), "not_found", 404, "id"},
		{"a tick", post("/enqueue", `{"text":"x","kind":"system_tick"}`), "authority_not_accepted", 403, "kind"},
		{"a channel without a name", post("/enqueue", `{"text":"x","origin":{"kind":"channel"}}`), "invalid_message",
			400, "origin.channel_id"},
		{"a field of another origin", post("/enqueue",
			`{"text":"x","origin":{"kind":"webhook","source":"a","task_id":"t"}}`),
			"invalid_message", 400, "origin.task_id"},
		{"unknown key", post("/enqueue", `{"text":"x","task_id":"t"}`), "unknown_field", 400, "task_id"},
		{"key of the origin", post("/enqueue", `{"text":"x","origin":{"kind":"webhook","wat":1}}`), "unknown_field",
			400, "origin.wat"},
		{"twice", post("/enqueue", `{"text":"x","correlation_id":"a","correlationId":"b"}`), "invalid_value", 400,
			"correlationId"},
		{"no body", post("/enqueue", ``), "invalid_json", 400, ""},
		{"no object", post("/enqueue", `[1]`), "invalid_json", 400, ""},
		{"two objects", post("/enqueue", `{"text":"x"}{}`), "invalid_json", 400, ""},
		{"no UTF-8", post("/enqueue", "{\"text\":\"\xff\"}"), "invalid_json", 400, ""},
		{"deep", post("/enqueue", `{"json":`+deep+`}`), "invalid_json", 400, ""},
		{"wrong type", post("/enqueue", `{"text":1}`), "invalid_value", 400, "text"},
		{"nothing said", post("/enqueue", `{}`), "missing_field", 400, "text"},
		{"said twice", post("/enqueue", `{"text":"x","json":{}}`), "missing_field", 400, "text"},
		{"a brief", post("/enqueue", `{"body":{"type":"brief","text":"x"}}`), "invalid_value", 400, "body"},
		{"metadata", post("/enqueue", `{"text":"x","metadata":[1]}`), "invalid_value", 400, "metadata"},
		{"priority", post("/enqueue", `{"text":"x","priority":"now"}`), "invalid_message", 400, "priority"},
		{"interjection", post("/enqueue", `{"text":"x","priority":"interject"}`), "invalid_message", 400, "priority"},
		{"another agent", post("/agents/main/enqueue", `{"text":"x","agent_id":"other"}`), "invalid_value", 400,
			"agent_id"},
		{"no such agent", post("/agents/nobody/enqueue", `{"text":"x"}`), "not_found", 404, "agent"},
		{"key", request{method: "POST", path: "/enqueue", body: `{"text":"x"}`,
			header: map[string]string{"Idempotency-Key": strings.Repeat("k",
				201)}}, "invalid_value", 400, "Idempotency-Key"},
		{"a long correlation", post("/enqueue", `{"text":"x","correlation_id":"`+strings.Repeat("c", 300)+`"}`),
			"invalid_value", 400, "correlation_id"},
		{"compressed", request{method: "POST", path: "/enqueue", body: `{"text":"x"}`,
			header: map[string]string{"Content-Encoding": "gzip"}}, "unsupported_media_type", 415, "Content-Encoding"},

		{"empty prompt", post("/control/agents/main/prompt", `{"text":" "}`), "missing_field", 400, "text"},
		{"surface of another", request{method: "POST", path: "/control/agents/main/prompt",
			body: `{"text":"x","surface":"cli_prompt"}`, tcp: true}, "authority_not_accepted", 403, "surface"},
		{"surface of the runtime", post("/control/agents/main/prompt", `{"text":"x","surface":"timer_scheduler"}`),
			"authority_not_accepted", 403, "surface"},
		{"large prompt", post("/control/agents/main/prompt", `{"text":"`+strings.Repeat("x", 1<<20)+`"}`),
			"request_too_large", 413, "text"},
		{"no reason", post("/control/agents/main/wake", `{}`), "missing_field", 400, "reason"},
		{"action", post("/control/agents/main/control", `{"action":"shoot"}`), "invalid_value", 400, "action"},
		{"mode", post("/control/agents/main/current-run/abort", `{"mode":"x"}`), "invalid_value", 400, "mode"},
		{"timer", post("/control/agents/main/timers", `{"duration_ms":0}`), "invalid_value", 400, "duration_ms"},
		{"long timer", post("/control/agents/main/timers", `{"duration_ms":9223372036854775807}`), "invalid_value", 400,
			"duration_ms"},
		{"interval", post("/control/agents/main/timers", `{"duration_ms":1000,"interval_ms":-1}`), "invalid_value", 400,
			"interval_ms"},
		{"no model", post("/control/agents/main/model", `{"model":""}`), "missing_field", 400, "model"},
		{"agent's id", post("/control/agents/UPPER/create", ``), "invalid_agent", 400, "agent_id"},
		{"no timer", request{method: "DELETE", path: "/control/agents/main/timers/timer_x"}, "not_found", 404, "timer"},
		{"no trigger", post("/control/agents/main/trigger/revoke", ``), "not_found", 404, "trigger"},

		{"webhook", post("/webhooks/generic/main", `no json`), "invalid_json", 400, ""},
		{"large webhook", post("/webhooks/generic/main", `"`+strings.Repeat("x", 256<<10)+`"`), "request_too_large",
			413, ""},
		{"webhook's query", post("/webhooks/generic/main?trust=1", `{}`), "unknown_field", 400, "trust"},
		{"large callback", post("/callbacks/wake/x", strings.Repeat("x", 256<<10+1)), "request_too_large", 413, ""},
		{"callback", post("/callbacks/wake/x", ``), "trigger_unknown", 404, "token"},

		{"limit", get("/agents/main/briefs?limit=-1"), "invalid_value", 400, "limit"},
		{"large limit", get("/agents/main/briefs?limit=501"), "invalid_value", 400, "limit"},
		{"limit twice", get("/agents/main/briefs?limit=1&limit=2"), "invalid_value", 400, "limit"},
		{"cursor", get("/agents/main/events?after_seq=x"), "invalid_value", 400, "after_seq"},
		{"order", get("/agents/main/events?order=up"), "invalid_value", 400, "order"},
		{"projection", get("/agents/main/events?projection=all"), "invalid_value", 400, "projection"},
		{"level", get("/agents/main/events?max_level=6"), "invalid_value", 400, "max_level"},
		{"query", get("/agents/main/events?%zz"), "invalid_value", 400, "query"},
		{"stream's cursor", request{method: "GET", path: "/agents/main/events/stream",
			header: map[string]string{"Last-Event-ID": "x"}}, "invalid_value", 400, "Last-Event-ID"},
		{"stream of an unknown agent", get("/agents/nobody/events/stream"), "not_found", 404, "agent"},
		{"unknown message", get("/agents/main/messages/msg_x"), "not_found", 404, "message"},
		{"unknown path", get("/agents"), "no_such_route", 404, ""},
		{"unknown method", request{method: "PUT", path: "/agents/list"}, "method_not_allowed", 405, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r.ask(d, tc.req).is(t, tc.name, tc.want, tc.code, tc.key)
		})
	}
	c := r.client()
	if s := must(c.Status(t.Context(), ""))(t); s.Agent.Pending != 0 || s.Agent.TotalMessageCount != 0 {
		t.Errorf("something was queued: %+v", s.Agent)
	}
}

// An accepted message is in the ledger as it was sent, with the authority of the route that it took.
func TestProvenance(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	for _, tc := range []struct {
		name string
		req  request
		want string
	}{
		{"enqueue by socket", post("/enqueue", `{"text":"x"}`),
			"webhook_event webhook trusted_integration integration_signal normal http_public_enqueue " +
				"local_process text x"},
		{"enqueue by port", request{method: "POST", path: "/agents/main/enqueue",
			body: `{"json":{"a":1},"priority":"background"}`,
			tcp:  true}, `webhook_event webhook trusted_integration integration_signal background ` +
			`http_public_enqueue control_authenticated json {"a":1}`},
		{"channel", post("/enqueue", `{"body":{"type":"text","text":"y"},"kind":"channel_event","origin":{"kind":`+
			`"channel","channelId":"c"}}`), "channel_event channel untrusted_external external_evidence normal " +
			"http_public_enqueue local_process text y"},
		{"prompt by socket", post("/control/agents/main/prompt", `{"text":"z","priority":"interrupt"}`),
			"operator_prompt operator trusted_operator operator_instruction interject http_control_prompt " +
				"local_process text z"},
		{"prompt by port", request{method: "POST", path: "/control/agents/main/prompt", body: `{"text":"z"}`,
			tcp: true}, "operator_prompt operator trusted_operator operator_instruction normal http_control_prompt " +
			"control_authenticated text z"},
		{"run", post("/control/agents/main/prompt", `{"text":"z","surface":"run_once"}`),
			"operator_prompt operator trusted_operator operator_instruction normal run_once local_process text z"},
		{"webhook", request{method: "POST", path: "/webhooks/generic/main?source=ci", body: `[1]`, tcp: true},
			"webhook_event webhook trusted_integration integration_signal normal http_webhook " +
				"control_authenticated json [1]"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			a := r.ask(d, tc.req)
			var got wire.Enqueued
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 || got.AgentID != "main" {
				t.Fatalf("%d %s", a.status, a.body)
			}
			var m ledger.Message
			expect.NoError(t, r.store.View(t.Context(), func(v ledger.View) (err error) {
				m, err = v.Message(got.MessageID)
				return err
			}))
			if text := fmt.Sprint(m.Kind, " ", m.Origin.Kind, " ", m.Trust, " ", m.Authority, " ", m.Priority, " ",
				m.Surface, " ", m.AdmissionContext, " ", m.Body.Type, " ", m.Body.Text,
				string(m.Body.Value)); text != tc.want {
				t.Errorf("got  %s\nwant %s", text, tc.want)
			}
		})
	}
}

// The same key is another one for those who come another way.
func TestKeysOfOneWayAreNotThoseOfAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	ids := make(map[string]bool)
	for _, path := range []string{"/webhooks/generic/main", "/enqueue", "/control/agents/main/prompt"} {
		for range 2 {
			a := r.ask(d, request{method: "POST", path: path, body: `{"text":"x"}`,
				header: map[string]string{"Idempotency-Key": "k"}})
			var got wire.Enqueued
			if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 {
				t.Fatalf("%s: %d %s", path, a.status, a.body)
			}
			ids[got.MessageID] = true
		}
	}
	expect.Equal(t, "messages", len(ids), 3)
}

// A trigger's URL is told when asked for, wakes the agent without a bearer, and is in no log, metric, event or view.
func TestTriggers(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	r.host.info.HTTPAddr = r.addr
	d := r.described()
	c, ctx := r.client(), t.Context()
	made := must(c.Trigger(ctx, ""))(t)
	secret := made.TriggerURL[strings.LastIndexByte(made.TriggerURL, '/')+1:]
	if !strings.HasPrefix(made.TriggerURL, "http://"+r.addr+"/callbacks/wake/") || len(secret) < 43 {
		t.Fatalf("trigger %+v", made)
	}
	again := must(c.Trigger(ctx, ""))(t)
	expect.Equal(t, "asked again: again.TriggerURL", again.TriggerURL, made.TriggerURL)
	expect.Equal(t, "asked again: again.Trigger.ID", again.Trigger.ID, made.Trigger.ID)
	expect.Equal(t, "asked again: again.Hint", again.Hint, "")
	call := func(path, body, kind string) answer {
		return r.ask(d, request{method: "POST", path: path, body: body, tcp: true, host: "tunnel.example.org",
			header: map[string]string{"Authorization": "", "Content-Type": kind}})
	}
	a := call("/callbacks/wake/"+secret+"?source=ci&resource=build%2F7&hub.mode=subscribe&v=1&v=;", `{"n":1}`, "application/json")
	var got wire.Delivered
	if err := json.Unmarshal([]byte(a.body), &got); err != nil || a.status != 200 || got.Result.AgentID != "main" ||
		got.Result.Disposition != "triggered" {
		t.Fatalf("delivered: %d %s (%v)", a.status, a.body, err)
	}
	if a = call("/callbacks/enqueue/"+secret, "\xff plain", "text/plain"); a.status != 200 ||
		!strings.Contains(a.body, `"coalesced"`) {
		t.Errorf("the legacy URL: %d %s", a.status, a.body)
	}
	unknown := call("/callbacks/wake/"+strings.Repeat("A", len(secret)), "", "")
	unknown.is(t, "unknown", 404, "trigger_unknown", "token")

	r.ask(d, request{method: "GET", path: "/callbacks/wake/" + secret, tcp: true, host: "tunnel.example.org",
		header: map[string]string{"Authorization": ""}}).is(t, "another method", 405, "method_not_allowed", "")
	r.ask(d, request{method: "GET", path: "/healthz", tcp: true, host: "tunnel.example.org",
		header: map[string]string{"Authorization": ""}}).is(t, "health", 200, "", "")
	rotated := must(c.RotateTrigger(ctx, "", ""))(t)
	for name, old := range map[string]answer{"former": call("/callbacks/wake/"+secret, "", ""),
		"short": call("/callbacks/wake/x", "", ""),
		"long":  call("/callbacks/wake/"+strings.Repeat("B", 4000), "", "")} {
		if old.status != 404 || old.body != unknown.body {
			t.Errorf("a %s token is answered with %d %s, an unknown one with %s", name, old.status, old.body,
				unknown.body)
		}
	}
	fresh := rotated.TriggerURL[strings.LastIndexByte(rotated.TriggerURL, '/')+1:]
	if a = call("/callbacks/wake/"+fresh, "", ""); a.status != 200 {
		t.Errorf("the new URL: %d %s", a.status, a.body)
	}
	if gone := must(c.RevokeTrigger(ctx, "", ""))(t); gone.Trigger.Status != ledger.TriggerRevoked ||
		gone.TriggerURL != "" {
		t.Errorf("revoked %+v", gone)
	}
	if a = call("/callbacks/wake/"+fresh, "", ""); a.body != unknown.body {
		t.Errorf("a revoked token: %s", a.body)
	}
	for _, path := range []string{"/status", "/state", "/metrics",
		"/agents/main/events?limit=500&projection=local_debug", "/transcript", "/agents/list",
		"/control/runtime/status"} {
		if a := r.ask(d, get(path)); a.status != 200 || strings.Contains(a.body, secret) || strings.Contains(a.body, fresh) {
			t.Errorf("%.120q is answered %d %s, want no secret", path, a.status, a.body)
		}
	}
	for _, s := range []string{secret, fresh, token} {
		if strings.Contains(r.log.String(), s) {
			t.Errorf("the log has a token:\n%s", r.log)
		}
	}
}

// Each capability has a budget of its own for what comes to it, and so has each
// webhook. A webhook takes only JSON that is declared as such, a trigger takes any body.
func TestDeliveriesHaveABudget(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{Deliveries: 5, Delivered: 3000}, tcp())
	r.host.info.HTTPAddr = r.addr
	d, c := r.described(), r.client()
	must(c.Create(t.Context(), "other", ""))(t)
	path := func(agent string) string {
		url := must(c.Trigger(t.Context(), agent))(t).TriggerURL
		return url[strings.Index(url, "/callbacks/"):]
	}
	main, other := path("main"), path("other")
	deliver := func(path, body string) answer {
		return r.ask(d, request{method: "POST", path: path, body: body, tcp: true,
			header: map[string]string{"Authorization": ""}})
	}
	// It fills up while the test runs, in two minutes if nothing is asked.
	exhaust := func(what string, ask func() answer) {
		t.Helper()
		for range 50 {
			a := ask()
			if a.status == 200 {
				continue
			}
			a.is(t, what, 429, "busy", "")
			if wait, err := strconv.Atoi(a.header.Get("Retry-After")); err != nil || wait < 1 || wait > 120 {
				t.Errorf("%s: Retry-After %q", what, a.header.Get("Retry-After"))
			}
			return
		}
		t.Errorf("%s has no end", what)
	}
	exhaust("a trigger", func() answer { return deliver(main, "x") })
	if a := deliver(other, "x"); a.status != 200 {
		t.Errorf("another trigger: %d %s", a.status, a.body)
	}
	exhaust("a trigger by bytes", func() answer { return deliver(other, strings.Repeat("x", 2900)) })
	deliver("/callbacks/wake/unknown", "x").is(t, "an unknown trigger", 404, "trigger_unknown", "token")
	exhaust("a webhook", func() answer { return r.ask(d, post("/webhooks/generic/main", `{}`)) })

	for _, path := range []string{"/webhooks/generic/other", "/enqueue", "/control/agents/main/prompt"} {
		for _, kind := range []string{"", "text/plain", "application/x-www-form-urlencoded",
			"application/json; charset=utf-16", "json"} {
			a := r.ask(d, request{method: "POST", path: path, body: `{"text":"x"}`,
				header: map[string]string{"Content-Type": kind}})
			a.is(t, path+" "+kind, 415, "unsupported_media_type", "Content-Type")
		}
	}
}
