package gateway_test

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"golang.org/x/sys/unix"

	"holon/runner/gateway"
	"holon/state"
	"holon/test/expect"
)

// All grants draw from the account of the host, of all processes, and each bound of it keeps requests back.
func TestTotal(t *testing.T) {
	t.Parallel()
	prices := gateway.Prices{"openai/m": {Input: 2_000_000, Output: 10_000_000, ListOf: "2026-11-06"}}
	for _, tc := range []struct {
		name     string
		day, all gateway.Budget
		passed   int
		bound    string
	}{
		{"tokens of a day", gateway.Budget{MaxTokens: 301}, gateway.Budget{}, 3, "day_tokens"}, // 150 each
		{"cost of a day", gateway.Budget{MaxCost: 700}, gateway.Budget{}, 1, "day_cost"},       // 700 each
		{"tokens", gateway.Budget{}, gateway.Budget{MaxTokens: 300}, 2, "all_tokens"},
		{"cost", gateway.Budget{}, gateway.Budget{MaxCost: 1401}, 3, "all_cost"},
		{"none", gateway.Budget{}, gateway.Budget{}, 5, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "home", "spending.json")
			up := newUpstream(t, answerUsage(100, 50))
			options := openAI(up.URL)
			options.Prices = prices
			passed := 0
			var lease *gateway.Lease
			for range 5 { // each of a process of its own
				options.Total = gateway.OpenTotal(path, tc.day, tc.all, nil)
				g := serveTurn(t, options, gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}})
				admitted := g.gateway.Admit()
				if resp := g.post(t, "/openai/responses", `{"model":"m"}`); resp.status == http.StatusOK {
					expect.NoError(t, admitted)
					passed++
					continue
				}
				lease = g.lease
				e, ok := admitted.(*state.Error)
				if !ok || e.Param != state.HostBudget(tc.bound) || e.Hint == "" {
					t.Errorf("the refusal is %#v", admitted)
				}
			}
			expect.Equal(t, "requests that passed", passed, tc.passed)
			if tc.bound != "" {
				expect.Equal(t, "bound", lease.Account().Exhausted, tc.bound)
			}
			got, err := options.Total.Read()
			expect.NoError(t, err)
			n := int64(passed)
			want := gateway.Spending{Day: got.Day, DayTokens: 150 * n, DayCost: gateway.Amount(700 * n), Tokens: 150 * n,
				Cost: gateway.Amount(700 * n)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("the account (-want +got):\n%s", diff)
			}
		})
	}
}

// Requests side by side are all counted, and another day begins with nothing.
func TestTotalSideBySide(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spending.json")
	expect.NoError(t, os.WriteFile(path, []byte(`{"day":"2020-01-01","day_tokens":7,"tokens":7}`), 0o600))
	up := newUpstream(t, answerUsage(100, 50))
	options := openAI(up.URL)
	options.Total = gateway.OpenTotal(path, gateway.Budget{MaxTokens: 10_000}, gateway.Budget{}, nil)
	g := serveTurn(t, options, gateway.Grant{TurnID: "turn_1", Models: []string{"openai/m"}})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() { g.post(t, "/openai/responses", `{"model":"m"}`) })
	}
	group.Wait()
	g.lease.Revoke()
	got, err := options.Total.Read()
	expect.NoError(t, err)
	expect.Equal(t, "tokens of the day", got.DayTokens, int64(8*150))
	expect.Equal(t, "tokens", got.Tokens, int64(8*150+7))
}

// An account that cannot be read keeps requests back where it has bounds, and only there.
func TestTotalDamaged(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "spending.json")
	for _, text := range []string{"", "{", "{}", "null", `{"day":"2026-01-01","tokens":-1}`, `{"tokens":"x"}`} {
		expect.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		for budget, bound := range map[gateway.Budget]string{{}: "", {MaxCost: 1}: "budgets"} {
			total := gateway.OpenTotal(path, gateway.Budget{}, budget, nil)
			expect.Equal(t, text, total.Bound(), bound)
		}
	}
	expect.NoError(t, os.Remove(path))
	expect.NoError(t, unix.Mkfifo(path, 0o600))
	total := gateway.OpenTotal(path, gateway.Budget{MaxCost: 1}, gateway.Budget{}, nil)
	expect.Equal(t, "of a pipe", total.Bound(), "budgets")
}
