package gateway_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/runner/gateway"
	"holon/state"
	"holon/test/expect"
)

func TestOnlyTurnsPass(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, answerUsage(1, 1))
	g := serve(t, openAI(up.URL))
	const rest = "Content-Length: 13\r\n\r\n{\"model\":\"m\"}"
	for name, tc := range map[string]struct{ header, code string }{
		"no token":     {"", "turn_token_required"},
		"empty token":  {"Authorization: Bearer \r\n", "turn_token_required"},
		"another kind": {"Authorization: Basic " + g.token + "\r\n", "turn_token_required"},
		"two tokens": {"Authorization: Bearer " + g.token + "\r\nAuthorization: Bearer x\r\n",
			"turn_token_required"},
		"another token": {"Authorization: Bearer hmt_x\r\n", "turn_token_expired"},
		"its hash":      {"Authorization: Bearer " + strings.Repeat("0", 64) + "\r\n", "turn_token_expired"},
		"elsewhere":     {"X-Api-Key: " + g.token + "\r\n", "turn_token_required"},
	} {
		status, body := raw(t, g.server.Path(),
			"POST /openai/responses HTTP/1.1\r\nHost: m\r\nContent-Type: application/json\r\n"+tc.header+rest)
		expect.Equal(t, name+": status", status, http.StatusUnauthorized)
		expect.Contains(t, name+": string(body)", string(body), tc.code)
		if strings.Contains(string(body), g.token) {
			t.Errorf("%s: string(body) = %q, want it without %q", name, string(body), g.token)
		}
	}
	if resp := g.post(t, "/openai/responses", `{"model":"m"}`); resp.status != http.StatusOK {
		t.Fatalf("with the token: %d %s", resp.status, resp.body)
	}
	g.lease.Revoke()
	g.lease.Revoke()
	if resp := g.post(t, "/openai/responses", `{"model":"m"}`); resp.status != http.StatusUnauthorized ||
		!strings.Contains(resp.body, "turn_token_expired") {
		t.Errorf("after the turn: %d %s", resp.status, resp.body)
	}
	if seen := up.only(t); seen.header.Get("Authorization") != "Bearer "+sentinel ||
		strings.Contains(fmt.Sprint(seen.header), g.token) {
		t.Errorf("the provider saw %v", seen.header)
	}
}

func TestRevokeCutsWhatRuns(t *testing.T) {
	t.Parallel()
	begun, gone := make(chan struct{}), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "data: 1\n\n")
		http.NewResponseController(w).Flush()
		close(begun)
		<-r.Context().Done()
		close(gone)
	})
	g := serve(t, openAI(up.URL))
	resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(`{"model":"m"}`))
	expect.NoError(t, err)
	defer resp.Body.Close()
	<-begun
	g.lease.Revoke()
	if body, err := io.ReadAll(resp.Body); err == nil {
		t.Errorf("the answer ended as if it were whole: %q", body)
	}
	select {
	case <-gone:
	case <-time.After(20 * time.Second):
		t.Error("the provider is still being asked")
	}
}

// A turn is over when its client has the last event, and the provider may keep the connection: what the answer took is
// in the account that is read next.
func TestRevokeCountsWhatItCuts(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":2}}}`+
			"\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	g := serve(t, openAI(up.URL))
	resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(`{"model":"m"}`))
	expect.NoError(t, err)
	defer resp.Body.Close()
	if _, err := resp.Body.Read(make([]byte, 20)); err != nil {
		t.Fatal(err)
	}
	g.lease.Revoke()
	if a := g.lease.Account(); a.Total != 5 {
		t.Errorf("the account is %+v, want 5 tokens", a.Usage)
	}
}

func TestRevokeWaitsForNoReader(t *testing.T) {
	t.Parallel()
	full := make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		sent := 0
		for r.Context().Err() == nil {
			n, err := w.Write(make([]byte, 64<<10))
			if sent += n; err != nil {
				return
			}
			if sent == 4<<20 { // more than the gateway and the sockets hold
				close(full)
			}
		}
	})
	g := serve(t, openAI(up.URL))
	resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(`{"model":"m"}`))
	expect.NoError(t, err)
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 6<<20)
	<-full
	g.lease.Revoke() // returns
}

func TestOnlyGrantedModelsPass(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, answerUsage(1, 1))
	g := serve(t, openAI(up.URL))
	for body, want := range map[string]string{
		`{"model":"m2"}`:             "model_not_allowed",
		`{"model":"openai/m"}`:       "model_not_allowed",
		`{"model":"M"}`:              "model_not_allowed",
		`{"model":""}`:               "model_not_allowed",
		`{"model":"m","model":"m2"}`: "invalid_json",
		`{"input":"no model"}`:       "invalid_json",
		`not json`:                   "invalid_json",
		``:                           "invalid_json",
		`{"model":"m","stream":true}{"model":"m2"}`:                                 "invalid_json",
		`{"model":"m","input":"` + strings.Repeat("a", 1<<20) + `","model":"m2"}`:   "invalid_json",
		`{"model":"m","input":"` + strings.Repeat("a", 1<<20) + `","MODEL":"m2"}  `: "invalid_json",
	} {
		resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(body))
		if err != nil {
			continue // refused while it was being written
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode < 400 {
			t.Errorf("%.60s: resp.StatusCode = %d, want at least 400", body, resp.StatusCode)
		}
		expect.Contains(t, fmt.Sprintf("%.60s: string(text)", body), string(text), want)
		expect.Equal(t, fmt.Sprintf("%.60s: X-Should-Retry", body),
			resp.Header.Get("X-Should-Retry"), "false")
	}
	for _, seen := range up.all() {
		t.Errorf("the provider got a whole request: %.80s", seen.body)
	}
	late := `{"input":"` + strings.Repeat("a", 900<<10) + `","model":"m"}`
	if resp := g.post(t, "/openai/responses", late); resp.status != http.StatusOK {
		t.Errorf("a late model: %d %s", resp.status, resp.body)
	}
	if seen := up.only(t); seen.body != late {
		t.Errorf("the provider got %d bytes of %d", len(seen.body), len(late))
	}
}

func TestGrantIsChecked(t *testing.T) {
	t.Parallel()
	options := openAI("http://127.0.0.1:1")
	options.Prices = gateway.Prices{"openai/priced": {}}
	g := serveTurn(t, options, gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}})
	_, hash := gateway.NewToken()
	for name, tc := range map[string]struct {
		grant gateway.Grant
		code  state.Code
	}{
		"another provider": {gateway.Grant{Token: hash, Models: []string{"anthropic/m"}}, gateway.CodeInvalidGrant},
		"no provider":      {gateway.Grant{Token: hash, Models: []string{"m"}}, gateway.CodeInvalidGrant},
		"cost without price": {gateway.Grant{Token: hash, Models: []string{"openai/priced", "openai/m"},
			Budget: gateway.Budget{MaxCost: 1}}, gateway.CodeNoPrice},
	} {
		_, err := g.server.Grant(tc.grant)
		switch e, ok := errors.AsType[*state.Error](err); {
		case !ok:
			t.Errorf("%s: %v", name, err)
		case e.Code != tc.code:
			t.Errorf("%s: e.Code = %q, want %q", name, e.Code, tc.code)
		case e.Hint == "":
			t.Errorf(`%s: e.Hint = "", want another value`, name)
		}
	}
	grant := gateway.Grant{TurnID: "turn_2", Token: hash, Models: []string{"openai/priced"},
		Budget: gateway.Budget{MaxCost: 1}}
	lease, err := g.server.Grant(grant)
	expect.NoError(t, err)
	defer lease.Revoke()
	if _, err := g.server.Grant(grant); err == nil {
		t.Error("one token is in force for two turns")
	}
}

// Features that are refused are in the account, each once.
func TestRefusedFeaturesAreRecorded(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, answerUsage(30, 7))
	g := serve(t, openAI(up.URL))
	for range 3 {
		if resp := g.post(t, "/openai/responses",
			`{"model":"m","tools":[{"type":"web_search"}]}`); resp.status != http.StatusForbidden || resp.header.Get(
			"X-Should-Retry") != "false" {
			t.Errorf("%d %s", resp.status, resp.body)
		}
	}
	late := `{"model":"m","input":"` + strings.Repeat("a", 2<<20) + `","background":true}`
	if resp := g.post(t, "/openai/responses", late); resp.status != http.StatusForbidden {
		t.Errorf("%d %s", resp.status, resp.body)
	}
	got := g.lease.Account().Refused
	if len(got) != 2 {
		t.Fatalf("refused: len(got) = %d (%q), want 2", len(got), got)
	}
	expect.Contains(t, "refused: got[0]", got[0], "web_search")
	expect.Contains(t, "refused: got[1]", got[1], "background")
	if seen := up.all(); len(seen) != 0 {
		t.Errorf("the provider got %d requests to their end", len(seen))
	}
}
