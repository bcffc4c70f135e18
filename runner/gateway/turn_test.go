package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/runner/gateway"
)

// answerUsage answers each request with a usage of in and out tokens.
func answerUsage(in, out int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"usage":{"input_tokens":%d,"output_tokens":%d}}`, in, out)
	}
}

func TestOnlyTurnsPass(t *testing.T) {
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
		switch {
		case status != http.StatusUnauthorized:
			t.Errorf("%s: status = %d, want %d", name, status, http.StatusUnauthorized)
		case !strings.Contains(string(body), tc.code):
			t.Errorf("%s: string(body) = %q, want it to contain %q", name, string(body), tc.code)
		case strings.Contains(string(body), g.token):
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
	if err != nil {
		t.Fatal(err)
	}
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
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		io.WriteString(w, `data: {"type":"response.completed","response":{"usage":{"input_tokens":3,"output_tokens":2}}}`+
			"\n\n")
		http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	g := serve(t, openAI(up.URL))
	resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
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
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 6<<20)
	<-full
	g.lease.Revoke() // returns
}

func TestOnlyGrantedModelsPass(t *testing.T) {
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
		`{"model":"m","stream":true}{"model":"m2"}`:                  "invalid_json",
		`{"input":"` + strings.Repeat("a", 2<<20) + `","model":"m"}`: "invalid_json", // too late
		// seen while it is being sent
		`{"model":"m","input":"` + strings.Repeat("a", 1<<20) + `","model":"m2"}`:   "invalid_json",
		`{"model":"m","input":"` + strings.Repeat("a", 1<<20) + `","MODEL":"m2"}  `: "invalid_json",
	} {
		resp, err := g.client.Post("http://model/openai/responses", "application/json", strings.NewReader(body))
		if err != nil {
			continue // refused while it was being written
		}
		text, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		switch {
		case resp.StatusCode < 400:
			t.Errorf("%.60s: resp.StatusCode = %d, want at least 400", body, resp.StatusCode)
		case !strings.Contains(string(text), want):
			t.Errorf("%.60s: string(text) = %q, want it to contain %q", body, string(text), want)
		case resp.Header.Get("X-Should-Retry") != "false":
			t.Errorf(`%.60s: resp.Header.Get("X-Should-Retry") = %q, want "false"`, body, resp.Header.Get(
				"X-Should-Retry"))
		}
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

func TestBudget(t *testing.T) {
	prices := gateway.Prices{"openai/m": {Input: 2_000_000, Output: 10_000_000}} // 2 and 10 a million
	for _, tc := range []struct {
		name   string
		budget gateway.Budget
		used   gateway.Usage
		passed int
		bound  string
	}{
		{"requests", gateway.Budget{MaxRequests: 3}, gateway.Usage{}, 3, "max_requests"},
		{"requests of before", gateway.Budget{MaxRequests: 3}, gateway.Usage{Requests: 2}, 1, "max_requests"},
		{"tokens", gateway.Budget{MaxTokens: 301}, gateway.Usage{}, 3, "max_tokens"}, // 150 each
		{"tokens exactly", gateway.Budget{MaxTokens: 300}, gateway.Usage{}, 2, "max_tokens"},
		{"cost", gateway.Budget{MaxCost: 1401}, gateway.Usage{}, 3, "max_cost"}, // 100×2 + 50×10 = 700 millionths each
		{"cost of before", gateway.Budget{MaxCost: 1401}, gateway.Usage{Cost: 1400}, 1, "max_cost"},
		{"none", gateway.Budget{}, gateway.Usage{}, 5, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, answerUsage(100, 50))
			options := openAI(up.URL)
			options.Prices = prices
			g := serveTurn(t, options, gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}, Budget: tc.budget,
				Used: tc.used})
			passed := 0
			for range 5 {
				resp := g.post(t, "/openai/responses", `{"model":"m"}`)
				if resp.status == http.StatusOK {
					passed++
					continue
				}
				switch {
				case resp.status != http.StatusPaymentRequired:
					t.Errorf("resp.status = %d, want %d", resp.status, http.StatusPaymentRequired)
				case !strings.Contains(resp.body, `"code":"budget_exceeded"`):
					t.Errorf(`resp.body = %q, want it to contain "\"code\":\"budget_exceeded\""`, resp.body)
				case resp.header.Get("X-Should-Retry") != "false":
					t.Errorf(`resp.header.Get("X-Should-Retry") = %q, want "false"`, resp.header.Get("X-Should-Retry"))
				}
			}
			n := int64(tc.passed)
			want := gateway.Usage{Requests: n, Tokens: gateway.Tokens{Input: 100 * n, Output: 50 * n}, Total: 150 * n,
				Cost: gateway.Amount(700 * n)}
			got := g.lease.Account()
			if diff := cmp.Diff(gateway.Account{Usage: want, Budget: tc.budget, Exhausted: tc.bound,
				Models: map[string]gateway.Usage{"openai/m": want}}, got); diff != "" || passed != tc.passed {
				t.Errorf("%d passed, want %d; account (-want +got):\n%s", passed, tc.passed, diff)
			}
		})
	}
}

// What runs already counts: requests side by side exceed a budget by no more
// than those that had begun.
func TestBudgetOfParallelRequests(t *testing.T) {
	arrived, release := make(chan struct{}, 16), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		arrived <- struct{}{}
		<-release
		answerUsage(100, 50)(w, r)
	})
	body := `{"model":"m","input":"` + strings.Repeat("a", 400) + `"}` // about a hundred tokens
	g := serveTurn(t, openAI(up.URL), gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"},
		Budget: gateway.Budget{MaxTokens: 200}})
	var group sync.WaitGroup
	for range 2 {
		group.Go(func() { g.post(t, "/openai/responses", body) })
	}
	<-arrived
	<-arrived
	for range 3 {
		if resp := g.post(t, "/openai/responses", body); resp.status != http.StatusPaymentRequired {
			t.Errorf("a third request: %d %s", resp.status, resp.body)
		}
	}
	close(release)
	group.Wait()
	if got := g.lease.Account(); got.Total != 300 || got.Requests != 2 {
		t.Errorf("account: %+v", got)
	}
}

func TestGrantIsChecked(t *testing.T) {
	options := openAI("http://127.0.0.1:1")
	options.Prices = gateway.Prices{"openai/priced": {}}
	g := serveTurn(t, options, gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}})
	_, hash := gateway.NewToken()
	for name, tc := range map[string]struct {
		grant gateway.Grant
		code  gateway.Code
	}{
		"another provider": {gateway.Grant{Token: hash, Models: []string{"anthropic/m"}}, gateway.CodeInvalidGrant},
		"no provider":      {gateway.Grant{Token: hash, Models: []string{"m"}}, gateway.CodeInvalidGrant},
		"cost without price": {gateway.Grant{Token: hash, Models: []string{"openai/priced", "openai/m"},
			Budget: gateway.Budget{MaxCost: 1}}, gateway.CodeNoPrice},
	} {
		_, err := g.server.Grant(tc.grant)
		switch e, ok := errors.AsType[*gateway.Error](err); {
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
	if err != nil {
		t.Fatal(err)
	}
	defer lease.Revoke()
	if _, err := g.server.Grant(grant); err == nil {
		t.Error("one token is in force for two turns")
	}
}

// source is a credential whose key changes when it is renewed.
type source struct {
	mu      sync.Mutex
	key     string
	next    []string
	renewed int
	err     error
}

func (s *source) Key(context.Context) (gateway.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return gateway.NewSecret(s.key), s.err
}

func (s *source) Renew(_ context.Context, refused gateway.Secret) (gateway.Secret, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.renewed++
	if s.key == refused.Reveal() && len(s.next) > 0 {
		s.key, s.next = s.next[0], s.next[1:]
	}
	return gateway.NewSecret(s.key), nil
}

func TestKeyIsRenewed(t *testing.T) {
	const first, second = "sk-first-0123456789abcdef", "sk-second-0123456789abcdef"
	for _, tc := range []struct {
		name     string
		next     []string
		body     string
		status   int
		requests int
	}{
		{"once", []string{second}, `{"model":"m","input":"x"}`, 200, 2},
		{"with a large body", []string{second}, `{"model":"m","input":"` + strings.Repeat("a", 3<<20) + `"}`, 200, 2},
		{"with a body too large to be kept", []string{second},
			`{"model":"m","input":"` + strings.Repeat("a", 9<<20) + `"}`, 503, 1},
		{"no other key", nil, `{"model":"m"}`, 401, 1},
		{"the other is refused too", []string{"sk-third-0123456789abcdef", second}, `{"model":"m"}`, 401, 2},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("Authorization") != "Bearer "+second {
					w.WriteHeader(http.StatusUnauthorized)
				}
				io.WriteString(w, "you sent "+r.Header.Get("Authorization")+", not "+first)
			})
			keys := &source{key: first, next: tc.next}
			g := serve(t, gateway.Options{Providers: map[string]gateway.Provider{"openai": {BaseURL: up.URL,
				Credential: keys}}})
			resp := g.post(t, "/openai/responses", tc.body)
			if resp.status != tc.status || strings.Contains(resp.body, "sk-") {
				t.Errorf("answer: %d %s", resp.status, resp.body)
			}
			all := up.all()
			if len(all) != tc.requests || keys.renewed != 1 {
				t.Fatalf("%d requests, renewed %d times", len(all), keys.renewed)
			}
			if last := all[len(all)-1]; len(tc.body) < 1<<20 && last.body != tc.body {
				t.Errorf("the provider got %.80s", last.body)
			}
		})
	}
}

func TestNoKey(t *testing.T) {
	var log lockedBuffer
	up := newUpstream(t, func(http.ResponseWriter, *http.Request) {})
	for name, keys := range map[string]*source{
		"an error":    {err: errors.New("the vault is sealed")},
		"an empty":    {},
		"a malformed": {key: "sk-first 0123456789abcdef"},
	} {
		options := gateway.Options{Providers: map[string]gateway.Provider{"openai": {BaseURL: up.URL,
			Credential: keys}}, Logger: logger(&log)}
		g := serve(t, options)
		resp := g.post(t, "/openai/responses", `{"model":"m"}`)
		switch {
		case resp.status != http.StatusBadGateway:
			t.Errorf("%s: resp.status = %d, want %d", name, resp.status, http.StatusBadGateway)
		case !strings.Contains(resp.body, "missing_credentials"):
			t.Errorf(`%s: resp.body = %q, want it to contain "missing_credentials"`, name, resp.body)
		case resp.header.Get("X-Should-Retry") != "false":
			t.Errorf(`%s: resp.header.Get("X-Should-Retry") = %q, want "false"`, name, resp.header.Get(
				"X-Should-Retry"))
		}
		if strings.Contains(resp.body, "vault") || strings.Contains(resp.body+log.String(), "sk-first") {
			t.Errorf("%s: shown too much: %s\n%s", name, resp.body, log.String())
		}
	}
	if !strings.Contains(log.String(), "the vault is sealed") {
		t.Errorf("the host is not told why: %s", log.String())
	}
	if len(up.all()) > 0 {
		t.Error("the provider was asked without a key")
	}
}

// The account of a turn goes on where it stood when its gateway was killed, with
// what ran then as it was estimated.
func TestAccountGoesOn(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	up := newUpstream(t, func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.Header.Get("Accept"), "wait") {
			arrived <- struct{}{}
			<-release
		}
		answerUsage(100, 50)(w, r)
	})
	notes := make(chan gateway.Account, 100)
	noted := func(requests, total int64) gateway.Account {
		t.Helper()
		for {
			select {
			case a := <-notes:
				if a.Requests == requests && a.Total == total {
					return a
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("it is not noted that %d requests took %d tokens", requests, total)
			}
		}
	}
	budget := gateway.Budget{MaxTokens: 300}
	grant := gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}, Budget: budget,
		Note: func(a gateway.Account) {
			notes <- a
		}}
	first := serveTurn(t, openAI(up.URL), grant)
	const body = `{"model":"m","input":"0123456789"}` // 34 bytes
	first.post(t, "/openai/responses", body)
	noted(1, 150)
	var group sync.WaitGroup
	group.Go(func() {
		req, err := http.NewRequest(http.MethodPost, "http://model/openai/responses", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Accept", "wait")
		first.do(t, req)
	})
	<-arrived
	grant.Taken = noted(2, 158)
	if grant.Taken.Estimated != 1 || grant.Taken.Models["openai/m"].Requests != 2 {
		t.Errorf("noted: %+v", grant.Taken)
	}
	close(release)
	group.Wait()
	first.lease.Revoke()
	if left := len(notes); left > 0 { // the last says all
		var last gateway.Account
		for range left {
			last = <-notes
		}
		if last.Total != 300 {
			t.Errorf("the last note: %+v", last)
		}
	}

	second := serveTurn(t, openAI(up.URL), grant)
	if resp := second.post(t, "/openai/responses", body); resp.status != http.StatusOK {
		t.Fatalf("%d %s", resp.status, resp.body)
	}
	if resp := second.post(t, "/openai/responses", body); resp.status != http.StatusPaymentRequired {
		t.Errorf("beyond the budget: %d %s", resp.status, resp.body)
	}
	switch got := second.lease.Account(); {
	case got.Requests != 3:
		t.Errorf("account: got.Requests = %d, want 3", got.Requests)
	case got.Total != 308:
		t.Errorf("account: got.Total = %d, want 308", got.Total)
	case got.Models["openai/m"].Requests != 3:
		t.Errorf(`account: got.Models["openai/m"].Requests = %d, want 3`, got.Models["openai/m"].Requests)
	case got.Exhausted != "max_tokens":
		t.Errorf(`account: got.Exhausted = %q, want "max_tokens"`, got.Exhausted)
	}
}

// For any usage that a provider claims, an account only grows, by at least the size of the request, and a turn makes no
// more requests than its budget has room for.
func TestBudgetHoldsWhateverIsClaimed(t *testing.T) {
	// 200 tokens at the very least, by estimate 806
	body := `{"model":"m","input":"` + strings.Repeat("word ", 640) + `"}`
	for name, claim := range map[string]string{
		"negative":             `{"input_tokens":-1000000,"output_tokens":-5}`,
		"a negative part":      `{"input_tokens":900,"output_tokens":-900}`,
		"nothing":              `{"input_tokens":0,"output_tokens":0}`,
		"too little":           `{"input_tokens":1,"output_tokens":1,"total_tokens":2}`,
		"a total below":        `{"input_tokens":900,"output_tokens":10,"total_tokens":3}`,
		"a negative total":     `{"prompt_tokens":900,"completion_tokens":10,"total_tokens":-910}`,
		"beyond floats":        `{"input_tokens":1e308,"output_tokens":1}`,
		"a fraction":           `{"input_tokens":0.5,"output_tokens":1}`,
		"not a number":         `{"input_tokens":NaN,"output_tokens":1}`,
		"a string":             `{"input_tokens":"1","output_tokens":1}`,
		"too large for a word": `{"input_tokens":99999999999999999999,"output_tokens":1}`,
		"more than was sent":   `{"input_tokens":15000000,"output_tokens":1}`,
		"more than was said":   `{"input_tokens":900,"output_tokens":15000000}`,
		"twice":                `{"input_tokens":900,"input_tokens":-1,"output_tokens":1}`,
		"negative cached input": `{"input_tokens":900,"output_tokens":1,"input_tokens_details":` +
			`{"cached_tokens":-100000}}`,
		"less and less": `{"input_tokens":900,"output_tokens":1}},{"usage":{"input_tokens":-1,"output_tokens":-1}`,
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `[{"usage":%s}]`, claim)
			})
			g := serveTurn(t, openAI(up.URL), gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"},
				Budget: gateway.Budget{MaxTokens: 1000}})
			var before int64
			for g.post(t, "/openai/responses", body).status == http.StatusOK {
				got := g.lease.Account()
				switch {
				case got.Total < before+200:
					t.Fatalf("got.Total = %d, want at least %d", got.Total, before+200)
				case got.Total > before+1200:
					t.Fatalf("got.Total = %d, want at most %d", got.Total, before+1200)
				case got.Input < 0:
					t.Fatalf("got.Input = %d, want at least 0", got.Input)
				case got.Output < 0:
					t.Fatalf("got.Output = %d, want at least 0", got.Output)
				case got.CacheRead < 0:
					t.Fatalf("got.CacheRead = %d, want at least 0", got.CacheRead)
				}
				if before = got.Total; got.Requests > 5 {
					t.Fatalf("the budget does not end: %+v", got)
				}
			}
			got := g.lease.Account()
			switch {
			case got.Exhausted != "max_tokens":
				t.Errorf(`account: got.Exhausted = %q, want "max_tokens"`, got.Exhausted)
			case got.Requests < 2:
				t.Errorf("account: got.Requests = %d, want at least 2", got.Requests)
			case got.Estimated != got.Requests:
				t.Errorf("account: got.Estimated = %d, want %d", got.Estimated, got.Requests)
			case len(got.Refused) == 0:
				t.Error("account: len(got.Refused) = 0, want another length")
			case !strings.Contains(got.Refused[0], "openai claims"):
				t.Errorf(`account: got.Refused[0] = %q, want it to contain "openai claims"`, got.Refused[0])
			}
		})
	}
}

// Features that are refused are in the account, each once.
func TestRefusedFeaturesAreRecorded(t *testing.T) {
	up := newUpstream(t, answerUsage(30, 7))
	g := serve(t, openAI(up.URL))
	for range 3 {
		if resp := g.post(t, "/openai/responses",
			`{"model":"m","tools":[{"type":"web_search"}]}`); resp.status != http.StatusForbidden || resp.header.Get(
			"X-Should-Retry") != "false" {
			t.Errorf("%d %s", resp.status, resp.body)
		}
	}
	// seen while it is being sent
	late := `{"model":"m","input":"` + strings.Repeat("a", 2<<20) + `","background":true}`
	if resp := g.post(t, "/openai/responses", late); resp.status != http.StatusForbidden {
		t.Errorf("%d %s", resp.status, resp.body)
	}
	switch got := g.lease.Account().Refused; {
	case len(got) != 2:
		t.Errorf("refused: len(got) = %d (%q), want 2", len(got), got)
	case !strings.Contains(got[0], "web_search"):
		t.Errorf(`refused: got[0] = %q, want it to contain "web_search"`, got[0])
	case !strings.Contains(got[1], "background"):
		t.Errorf(`refused: got[1] = %q, want it to contain "background"`, got[1])
	}
	if seen := up.all(); len(seen) != 0 {
		t.Errorf("the provider got %d requests to their end", len(seen))
	}
}
