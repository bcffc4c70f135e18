package gateway

import (
	"context"
	"testing"
	"testing/synctest"

	"holon/test/expect"
)

// A request that comes before the answer ahead of it is settled is not refused for
// what that one only holds.
func TestReserveWaitsForWhatRuns(t *testing.T) {
	t.Parallel()
	const large = 4000 // bytes: about a thousand tokens
	for _, tc := range []struct {
		name  string
		taken int64 // tokens of the first request
		bound string
	}{
		{"room after all", 150, ""},
		{"no room", 300, "max_tokens"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLedger(&Grant{Budget: Budget{MaxTokens: 300}}, nil)
				first, refusal := l.reserve(t.Context(), "openai/m", nil, large)
				if refusal != nil {
					t.Fatal(refusal)
				}
				bound := make(chan string, 1)
				go func() {
					second, refusal := l.reserve(t.Context(), "openai/m", nil, large)
					if refusal != nil {
						bound <- refusal.Param
						return
					}
					second.settle(Usage{})
					bound <- ""
				}()
				synctest.Wait()
				select {
				case got := <-bound:
					t.Fatalf("decided while the first runs: %q", got)
				default:
				}
				first.settle(Usage{Total: tc.taken})
				expect.Equal(t, "refused for", <-bound, tc.bound)
			})
		})
	}
}

// A request whose client is gone waits for nothing, and uses up no bound.
func TestReserveEndsWithItsRequest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := newLedger(&Grant{Budget: Budget{MaxTokens: 300}}, nil)
		first, _ := l.reserve(t.Context(), "openai/m", nil, 4000)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan bool, 1)
		go func() {
			charge, refusal := l.reserve(ctx, "openai/m", nil, 4000)
			done <- charge == nil && refusal == nil
		}()
		synctest.Wait()
		cancel()
		if !<-done {
			t.Error("it was decided")
		}
		first.settle(Usage{Total: 150})
		if a := l.account(); a.Requests != 1 || a.Exhausted != "" {
			t.Errorf("account: %+v", a)
		}
	})
}

// Grants of one pool draw from one budget: what one does not use another may, and each has its own account.
func TestPoolIsOneBudget(t *testing.T) {
	t.Parallel()
	grant := &Grant{Budget: Budget{MaxRequests: 3}, Pool: NewPool()}
	first, second := newLedger(grant, nil), newLedger(grant, nil)
	ask := func(l *ledger) string {
		h, refusal := l.reserve(t.Context(), "openai/m", nil, 4000)
		if refusal != nil {
			return refusal.Param
		}
		h.settle(Usage{Total: 10})
		return ""
	}
	for i, tc := range []struct {
		ledger *ledger
		bound  string
	}{{first, ""}, {first, ""}, {second, ""}, {second, "max_requests"}, {first, "max_requests"}} {
		expect.Equal(t, "refused for", ask(tc.ledger), tc.bound)
		if i == 2 && first.account().Exhausted != "" {
			t.Error("an account is exhausted that was refused nothing")
		}
	}
	one, two := first.account(), second.account()
	expect.Equal(t, "requests of the first", one.Requests, int64(2))
	expect.Equal(t, "requests of the second", two.Requests, int64(1))
	grant.Pool.Take(Usage{Requests: 7})
	grant.Budget.MaxRequests = 11
	third := newLedger(grant, nil) // after three and seven
	expect.Equal(t, "refused for", ask(third), "")
	expect.Equal(t, "refused for", ask(third), "max_requests")
	sum := Sum(Sum(nil, &one), &two)
	expect.Equal(t, "requests of both", sum.Requests, int64(3))
	expect.Equal(t, "tokens of the model", sum.Models["openai/m"].Total, int64(30))
}
