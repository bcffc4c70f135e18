package gateway

import (
	"fmt"
	"strings"
	"sync"

	"holon/state"
)

// Shared is an account from which several grants draw at a time, in addition to their own budgets. As there, requests
// that run when a bound is reached go beyond it.
type Shared struct {
	mu     sync.Mutex
	budget Budget
	total  Usage
}

// Bounds of a Shared, as Account.Exhausted names them: sharedPrefix and the bound.
const (
	sharedTokens = sharedPrefix + "tokens"
	sharedCost   = sharedPrefix + "cost"
	sharedPrefix = "tree_"
)

// SharedBound is the bound of a Shared, tokens or cost, that Account.Exhausted names; "" for any other.
func SharedBound(exhausted string) string {
	if bound, ok := strings.CutPrefix(exhausted, sharedPrefix); ok {
		return bound
	}
	return ""
}

// Set replaces the budget. taken is what is on record of earlier grants: the account has at least that.
func (s *Shared) Set(b Budget, tokens int64, cost state.Amount) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.budget, s.total.Total, s.total.Cost = b, max(s.total.Total, tokens), max(s.total.Cost, cost)
}

// Budget returns what the grants may take together.
func (s *Shared) Budget() Budget {
	if s == nil {
		return Budget{}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.budget
}

func (s *Shared) add(u Usage) {
	if s == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total = plus(s.total, u)
}

// reached returns the bound that another request would exceed, "" for none.
func (s *Shared) reached() (bound, message string) {
	if s == nil {
		return "", ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch b, now := s.budget, s.total; {
	case b.MaxTokens > 0 && now.Total >= b.MaxTokens:
		return sharedTokens, fmt.Sprintf("the budget of %d tokens of the agent and its children is used up", b.MaxTokens)
	case b.MaxCost > 0 && now.Cost >= b.MaxCost:
		return sharedCost, fmt.Sprintf("the budget of %s of the agent and its children is used up", b.MaxCost)
	}
	return "", ""
}
