package control_test

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/state"
	"holon/test/clientsessions"
	"holon/test/expect"
)

// ofFile is a request with a token of the file.
func (q request) ofFile(name string) request {
	q.tcp, q.header = true, map[string]string{"Authorization": "Bearer " + tokenOf + name}
	return q
}

// An operator sees all sessions. Another caller sees its own; those of others are not there for it.
func TestSessionsOfCallers(t *testing.T) {
	t.Parallel()
	at := tcp()
	at.Tokens = tokensFile(t)
	r := newRig(t, control.Limits{}, at)
	d, own := r.described(), "/v1/holon/sessions"
	r.ask(d, post(own, `{"name":"mine","workspace":"/src"}`).ofFile("app")).is(t, "start", 200, "", "")
	r.ask(d, post(own, `{}`).ofFile("ci")).is(t, "start without the right", 403, "forbidden", "Authorization")
	r.ask(d, post(own, `{"workspace":"src"}`).ofFile("app")).is(t, "relative", 400, "invalid_value", "workspace")
	r.ask(d, get("/sessions").ofFile("app")).is(t, "all sessions", 403, "forbidden", "Authorization")
	r.ask(d, post("/control/sessions/mine/close", "").ofFile("app")).is(t, "control", 403, "forbidden", "Authorization")
	for _, tc := range []struct {
		q    request
		want []string
	}{
		{get("/sessions"), []string{"ses_2", "ses_1"}}, {get("/sessions").ofFile("ops"), []string{"ses_2", "ses_1"}},
		{get(own), []string{"ses_1"}}, {get(own).ofFile("app"), []string{"ses_2"}},
		{get(own).ofFile("ops"), nil}, {get(own).ofFile("ci"), nil},
	} {
		a := r.ask(d, tc.q)
		for _, id := range []string{"ses_1", "ses_2"} {
			expect.Equal(t, fmt.Sprint(tc.q, id), strings.Contains(a.body, `"`+id+`"`),
				strings.Contains(fmt.Sprint(tc.want), id))
		}
	}
	for _, name := range []string{"/ses_1", "/first"} {
		for _, q := range []request{get(own + name), get(own + name + "/diff"), post(own+name+"/apply", ""),
			post(own+name+"/checkout", ""), post(own+name+"/close", ""), get(own + name + "/turns"),
			post(own+name+"/rewind", "{}")} {
			unknown := q
			unknown.path = strings.Replace(q.path, name, "/ses_9", 1)
			a, b := r.ask(d, q.ofFile("app")), r.ask(d, unknown.ofFile("app"))
			a.is(t, q.path, 404, "session_not_found", "session")
			expect.Equal(t, q.path+" is as an unknown one", a.body, b.body)
		}
	}
	r.ask(d, get(own+"/mine").ofFile("app")).is(t, "its own", 200, "", "")
	r.ask(d, get("/sessions/mine").ofFile("ops")).is(t, "an operator's look", 200, "", "")
}

// What was changed can be seen and taken by its client; what an operator has to allow, only an operator allows.
func TestChangesOfSessions(t *testing.T) {
	t.Parallel()
	at := tcp()
	at.Tokens = tokensFile(t)
	r := newRig(t, control.Limits{}, at)
	d, c, mine := r.described(), r.client(), "/v1/holon/sessions/mine"
	r.ask(d, post("/v1/holon/sessions", `{"name":"mine"}`).ofFile("app")).is(t, "start", 200, "", "")
	diff := must(c.DiffSession(t.Context(), "mine", 100))(t)
	if diff.SessionID != "ses_2" || diff.Changes.Patch == "" || diff.Changes.Bundle == "" || len(diff.Changes.Files) != 1 {
		t.Errorf("an operator gets %+v", diff)
	}
	expect.Equal(t, "the patch", diff.PatchText, clientsessions.Patch)
	expect.Equal(t, "its beginning", must(c.DiffSession(t.Context(), "mine", 4))(t).PatchText, clientsessions.Patch[:4])
	expect.Equal(t, "none of it", must(c.DiffSession(t.Context(), "mine", 0))(t).PatchText, "")
	a := r.ask(d, get(mine+"/diff").ofFile("app"))
	if a.status != 200 || strings.Contains(a.body, filepath.Dir(diff.Changes.Patch)) || strings.Contains(a.body, "/host") {
		t.Errorf("a path of the host: %d %s", a.status, a.body)
	}
	q := get(mine + "/diff").ofFile("app")
	q.header["Accept"] = "text/x-diff"
	expect.Equal(t, "patch", r.ask(d, q).body, clientsessions.Patch)

	allow := `{"allow_executed":true}`
	r.ask(d, post(mine+"/apply", allow).ofFile("app")).is(t, "apply", 403, "forbidden", "allow_executed")
	r.ask(d, post(mine+"/checkout", allow).ofFile("app")).is(t, "checkout", 403, "forbidden", "allow_executed")
	r.ask(d, post(mine+"/checkout", `{"path":"/p"}`).ofFile("app")).is(t, "checkout", 403, "forbidden", "path")
	r.ask(d, post(mine+"/apply", `{}`).ofFile("app")).is(t, "apply", 200, "", "")
	a = r.ask(d, post(mine+"/checkout", `{"branch":"taken"}`).ofFile("app"))
	a.is(t, "checkout", 409, "checked_out", "branch")
	if strings.Contains(a.body, "/host") || strings.Contains(a.body, "holon remove") {
		t.Errorf("a client reads of the host: %s", a.body)
	}
	a = r.ask(d, post("/control/sessions/mine/checkout", `{"branch":"taken"}`).ofFile("ops"))
	if !strings.Contains(a.body, "/host/tree") || !strings.Contains(a.body, "holon remove") {
		t.Errorf("an operator reads %s", a.body)
	}
	r.ask(d, post(mine+"/checkout", `{"branch":"b"}`).ofFile("app")).is(t, "checkout", 200, "", "")
	r.ask(d, post("/control/sessions/mine/apply", allow).ofFile("ops")).is(t, "apply", 200, "", "")
	must(c.ApplySession(t.Context(), "ses_2", wire.ApplySession{AllowExecuted: true}))(t)
	must(c.CheckoutSession(t.Context(), "ses_2", wire.CheckoutSession{Branch: "c", Path: "/p"}))(t)
	if closed := must(c.CloseSession(t.Context(), "ses_2"))(t); closed.Status != "closed" || closed.ClosedAt.IsZero() {
		t.Errorf("closed: %+v", closed)
	}
	expect.Equal(t, "done", r.sessions.Done(), strings.Join([]string{
		"ses_2 apply {AllowExecuted:false ResultTrees:[]} app",
		"ses_2 checkout {Branch:b Path: AllowExecuted:false} app", "ses_2 apply {AllowExecuted:true ResultTrees:[]} ops",
		"ses_2 apply {AllowExecuted:true ResultTrees:[]} operator",
		"ses_2 checkout {Branch:c Path:/p AllowExecuted:false} operator",
		"ses_2 close operator"}, "\n"))
}

// One session too many is refused until there is room, which the answer says.
func TestTooManySessions(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, control.Access{})
	d, c := r.described(), r.client()
	for range 2 {
		must(c.StartSession(t.Context(), wire.StartSession{Model: "scripted/other"}))(t)
	}
	a := r.ask(d, post("/control/sessions", `{}`))
	a.is(t, "one too many", http.StatusTooManyRequests, "session_limit", "")
	expect.Equal(t, "Retry-After", a.header.Get("Retry-After"), "90")
	if !strings.Contains(a.body, `"retryable":true`) {
		t.Errorf("not to be tried again: %s", a.body)
	}
	expect.Equal(t, "sessions", len(must(c.Sessions(t.Context()))(t).Data), 3)
	expect.Equal(t, "model", must(c.Session(t.Context(), "ses_3"))(t).Model, "scripted/other")
	if _, err := c.Session(t.Context(), "../agents/list"); !state.IsCode(err, "session_not_found") {
		t.Errorf("a name that is a path: %v", err)
	}
	none := client.Unix(r.socket)
	defer none.Close()
	r.stop()
	r.options.Sessions = nil
	r.server = control.New(r.options)
	r.run(control.Access{})
	if _, err := none.Sessions(t.Context()); !state.IsCode(err, wire.CodeUnsupported) {
		t.Errorf("a runtime without sessions: %v", err)
	}
}

// A client goes back in its own sessions, and sees what their turns were.
func TestRewindSession(t *testing.T) {
	t.Parallel()
	at := tcp()
	at.Tokens = tokensFile(t)
	r := newRig(t, control.Limits{}, at)
	d, c, mine := r.described(), r.client(), "/v1/holon/sessions/mine"
	r.ask(d, post("/v1/holon/sessions", `{"name":"mine"}`).ofFile("app")).is(t, "start", 200, "", "")
	list := must(c.SessionTurns(t.Context(), "mine"))(t)
	expect.Equal(t, "turns", len(list.Data), 2)
	r.ask(d, get(mine+"/turns").ofFile("app")).is(t, "turns", 200, "", "")
	r.ask(d, post(mine+"/rewind", `{"response_id":"resp_1"}`).ofFile("app")).is(t, "rewind", 200, "", "")
	r.ask(d, post(mine+"/rewind", `{}`).ofFile("app")).is(t, "to the beginning", 200, "", "")
	r.ask(d, post(mine+"/rewind", `{"response_id":"resp_2"}`).ofFile("app")).is(t, "files that are lost", 409, "tree_not_kept",
		"response_id")
	done := must(c.RewindSession(t.Context(), "mine", wire.RewindSession{ResponseID: "resp_2", ConversationOnly: true}))(t)
	expect.Equal(t, "current", done.ResponseID, "resp_2")
	expect.Equal(t, "done", r.sessions.Done(), strings.Join([]string{
		"ses_2 rewind {ResponseID:resp_1 ConversationOnly:false} app", "ses_2 rewind {ResponseID: ConversationOnly:false} app",
		"ses_2 rewind {ResponseID:resp_2 ConversationOnly:true} operator"}, "\n"))
}
