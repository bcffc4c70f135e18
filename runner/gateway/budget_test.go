package gateway_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/runner/gateway"
	"holon/test/expect"
)

// answerUsage answers each request with a usage of in and out tokens.
func answerUsage(in, out int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"usage":{"input_tokens":%d,"output_tokens":%d}}`, in, out)
	}
}

func TestBudget(t *testing.T) {
	t.Parallel()
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
				expect.Equal(t, "resp.status", resp.status, http.StatusPaymentRequired)
				expect.Contains(t, "resp.body", resp.body, `"code":"budget_exceeded"`)
				expect.Equal(t, "X-Should-Retry", resp.header.Get("X-Should-Retry"), "false")
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
// than those that had begun, and the next ones wait until it is known.
func TestBudgetOfParallelRequests(t *testing.T) {
	t.Parallel()
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
		group.Go(func() {
			if resp := g.post(t, "/openai/responses", body); resp.status != http.StatusPaymentRequired {
				t.Errorf("a third request: %d %s", resp.status, resp.body)
			}
		})
	}
	close(release)
	group.Wait()
	if got := g.lease.Account(); got.Total != 300 || got.Requests != 2 {
		t.Errorf("account: %+v", got)
	}
}

// The account of a turn goes on where it stood when its gateway was killed, with
// what ran then as it was estimated.
func TestAccountGoesOn(t *testing.T) {
	t.Parallel()
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
		expect.Equal(t, "the last note", last.Total, 300)
	}

	second := serveTurn(t, openAI(up.URL), grant)
	if resp := second.post(t, "/openai/responses", body); resp.status != http.StatusOK {
		t.Fatalf("%d %s", resp.status, resp.body)
	}
	if resp := second.post(t, "/openai/responses", body); resp.status != http.StatusPaymentRequired {
		t.Errorf("beyond the budget: %d %s", resp.status, resp.body)
	}
	got := second.lease.Account()
	expect.Equal(t, "account: got.Requests", got.Requests, 3)
	expect.Equal(t, "account: got.Total", got.Total, 308)
	expect.Equal(t, "account: requests of the model", got.Models["openai/m"].Requests, 3)
	expect.Equal(t, "account: got.Exhausted", got.Exhausted, "max_tokens")
}

// For any usage that a provider claims, an account only grows, by at least the size of the request, and a turn makes no
// more requests than its budget has room for.
func TestBudgetHoldsWhateverIsClaimed(t *testing.T) {
	t.Parallel()
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
		"less and less": `{"input_tokens":900,"output_tokens":1},"response":{"usage":{"input_tokens":-1}}`,
	} {
		t.Run(name, func(t *testing.T) {
			up := newUpstream(t, func(w http.ResponseWriter, _ *http.Request) {
				fmt.Fprintf(w, `{"usage":%s}`, claim)
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
			expect.Equal(t, "account: got.Exhausted", got.Exhausted, "max_tokens")
			if got.Requests < 2 {
				t.Errorf("account: got.Requests = %d, want at least 2", got.Requests)
			}
			expect.Equal(t, "account: got.Estimated", got.Estimated, got.Requests)
			if len(got.Refused) == 0 {
				t.Fatal("account: len(got.Refused) = 0, want another length")
			}
			expect.Contains(t, "account: got.Refused[0]", got.Refused[0], "openai claims")
		})
	}
}

// Grants that share an account draw from it together: what one takes, the other does not have.
func TestSharedBudget(t *testing.T) {
	t.Parallel()
	up := newUpstream(t, answerUsage(100, 50))
	shared := new(gateway.Shared)
	shared.Set(gateway.Budget{MaxTokens: 500}, 150, 0) // of earlier turns
	var turns []*served
	for _, id := range []string{"turn_1", "turn_2"} {
		turns = append(turns, serveTurn(t, openAI(up.URL), gateway.Grant{TurnID: id, Models: []string{"openai/m"},
			Shared: shared, Taken: gateway.Account{Usage: gateway.Usage{Total: 50}}}))
	}
	passed := 0
	for i := range 6 {
		if turns[i%2].post(t, "/openai/responses", `{"model":"m"}`).status == http.StatusOK {
			passed++
		}
	}
	expect.Equal(t, "requests within 500 of which 250 were taken", passed, 2)
	for _, g := range turns {
		expect.Equal(t, "bound", g.lease.Account().Exhausted, "tree_tokens")
	}
	shared.Set(gateway.Budget{MaxTokens: 1000}, 0, 0)
	expect.Equal(t, "with a larger budget", turns[0].post(t, "/openai/responses", `{"model":"m"}`).status, http.StatusOK)
}
