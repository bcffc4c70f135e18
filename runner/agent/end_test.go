package agent

import (
	"strconv"
	"testing"

	"holon/responses"
	"holon/runner"
	"holon/runner/gateway"
	"holon/state"
	"holon/test/expect"
)

// A turn used what the gateway counts, whose numbers count for the budget too, and else what its container counts.
func TestUsedOfTurn(t *testing.T) {
	t.Parallel()
	container := &responses.Usage{InputTokens: 6003, OutputTokens: 4, TotalTokens: 6007}
	metered := func(estimated int64) *gateway.Account {
		a := &gateway.Account{}
		a.Requests, a.Estimated, a.Tokens, a.Total = 1, estimated, state.Tokens{Input: 6270, Output: 8}, 6278
		return a
	}
	for name, tc := range map[string]struct {
		end  runner.End
		want string
	}{
		"no model was asked":         {runner.End{}, ""},
		"no gateway":                 {runner.End{Usage: container}, "6007"},
		"a gateway not asked":        {runner.End{Usage: container, Account: &gateway.Account{}}, "6007"},
		"a gateway":                  {runner.End{Usage: container, Account: metered(0)}, "6278"},
		"a gateway that estimates":   {runner.End{Usage: container, Account: metered(1)}, "~6278"},
		"a container that is silent": {runner.End{Account: metered(1)}, "~6278"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if u := used(tc.end); u != nil {
				got = u.Mark() + strconv.FormatInt(u.TotalTokens, 10)
			}
			expect.Equal(t, "tokens", got, tc.want)
		})
	}
}
