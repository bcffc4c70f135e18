package oneshot

import (
	"fmt"
	"strings"

	"holon/state"
)

// Spent says how much of its budget a run took, "" when it had none or asked no
// provider: "2 of 10 requests, 300 of 5000 tokens, 0.0014 of 0.01 spent".
func Spent(m *state.Manifest) string {
	a := m.ModelUsage
	if a == nil {
		return ""
	}
	var parts []string
	if most := a.Budget.MaxRequests; most > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d requests", a.Requests, most))
	}
	if most := a.Budget.MaxTokens; most > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d tokens", a.Total, most))
	}
	if most := a.Budget.MaxCost; most > 0 {
		parts = append(parts, fmt.Sprintf("%s of %s spent", a.Cost, most))
	}
	return strings.Join(parts, ", ")
}
