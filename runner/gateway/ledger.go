package gateway

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"holon/responses"
	"holon/state"
)

// Pool makes one budget of those of several grants, which have to be the same: all draw from it, so that what one does
// not use another may.
type Pool struct {
	mu      sync.Mutex
	settled sync.Cond // signalled when a reservation is settled; of mu
	taken   Usage     // by all grants
	running Usage     // estimates of what runs of all of them
}

// NewPool returns a pool of which nothing is taken.
func NewPool() *Pool {
	p := new(Pool)
	p.settled.L = &p.mu
	return p
}

// Take counts what was taken of the budget by a grant of before.
func (p *Pool) Take(u Usage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.taken = plus(p.taken, u)
}

// ledger is the account of a grant and what its running requests may add to it.
type ledger struct {
	budget Budget
	before Usage   // by earlier grants, counts against the budget
	*Pool          // whose mu guards what follows, too
	shared *Shared // from which other grants draw too, within a budget of its own; nil for none
	host   *Total  // from which everything on the host draws; nil for none

	total     Usage
	models    map[string]Usage
	exhausted string
	listOf    string // Account.ListPricesOf
	held      Usage  // estimates of what runs: Requests, Total and Cost
	refused   []string
	failed    *state.Failure // what is known of the last request, see Lease.Trouble
}

// maxRefused bounds Account.Refused.
const maxRefused = 20

func newLedger(g *Grant, host *Total) *ledger {
	l := &ledger{budget: g.Budget, before: g.Used, total: g.Taken.Usage, exhausted: g.Taken.Exhausted, host: host,
		listOf: g.Taken.ListPricesOf, models: maps.Clone(g.Taken.Models), refused: slices.Clone(g.Taken.Refused)}
	l.shared = g.Shared
	l.shared.add(g.Taken.Usage)
	if l.models == nil {
		l.models = make(map[string]Usage)
	}
	if l.Pool = g.Pool; l.Pool == nil {
		l.Pool = NewPool()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.taken = plus(l.taken, l.total)
	return l
}

// reservation is what a running request may take. Every one is settled.
type reservation struct {
	ledger   *ledger
	model    string // reference, "" for a request that asks none
	price    *Price // nil: the model has none
	estimate Usage
}

// reserve counts a request and holds what it may take, or says which bound has
// been reached. Where only what running requests hold reaches one, it waits for
// them: a client may have read the end of an answer, and ask again, before that
// answer is settled. The reservation is nil, and so is the refusal, when ctx ends
// first. size is that of its body in bytes, -1 where it is not known.
func (l *ledger) reserve(ctx context.Context, model string, price *Price, size int64) (*reservation,
	*responses.Error) {
	defer context.AfterFunc(ctx, func() {
		l.mu.Lock() // not between a look at ctx and Wait
		defer l.mu.Unlock()
		l.settled.Broadcast()
	})()
	refusal := l.host.Reached()
	l.mu.Lock()
	defer l.mu.Unlock()
	if refusal != nil {
		l.exhausted = refusal.Param
		return nil, refusal
	}
	for {
		if bound, message := l.shared.reached(); bound != "" {
			l.exhausted = bound
			return nil, &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeBudgetExceeded,
				Param: bound, Message: message, Hint: "raise it with: holon agent budget"}
		}
		bound, message := l.reached(l.running)
		if bound == "" {
			break
		}
		if taken, _ := l.reached(Usage{}); taken != "" {
			l.exhausted = bound
			return nil, &responses.Error{Type: responses.TypeTooManyRequests, Code: responses.CodeBudgetExceeded,
				Param: bound, Message: message, Hint: "give the run a larger budget"}
		}
		if ctx.Err() != nil {
			return nil, nil
		}
		l.settled.Wait()
	}
	h := &reservation{ledger: l, model: model, price: price,
		estimate: usageOf(Tokens{Input: max(1, size/bytesPerToken)}, price, false)}
	l.count(model, Usage{Requests: 1})
	if price != nil && price.ListOf != "" {
		l.listOf = price.ListOf
	}
	running := Usage{Requests: 1, Total: h.estimate.Total, Cost: h.estimate.Cost}
	l.held, l.running = plus(l.held, running), plus(l.running, running)
	return h, nil
}

// reached returns the bound that another request would exceed, "" for none, where
// running requests take what is held. The caller holds mu.
func (l *ledger) reached(held Usage) (bound, message string) {
	now := plus(l.before, l.taken)
	soon := plus(now, held)
	switch b := l.budget; {
	case b.MaxRequests > 0 && now.Requests >= b.MaxRequests:
		return "max_requests", fmt.Sprintf("the budget of %d model requests is used up", b.MaxRequests)
	case b.MaxTokens > 0 && soon.Total >= b.MaxTokens:
		return "max_tokens", fmt.Sprintf("the budget of %d tokens is used up: %d are taken", b.MaxTokens, soon.Total)
	case b.MaxCost > 0 && soon.Cost >= b.MaxCost:
		return "max_cost", fmt.Sprintf("the budget of %s is used up: %s are spent", b.MaxCost, soon.Cost)
	}
	return "", ""
}

// count adds to the account. The caller holds mu.
func (l *ledger) count(model string, u Usage) {
	l.total, l.taken = plus(l.total, u), plus(l.taken, u)
	l.shared.add(u)
	if model != "" {
		l.models[model] = plus(l.models[model], u)
	}
}

// settle replaces what is held by what was taken.
func (h *reservation) settle(taken Usage) {
	l := h.ledger
	l.host.add(taken)
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, held := range []*Usage{&l.held, &l.running} {
		held.Requests--
		held.Total -= h.estimate.Total
		held.Cost -= h.estimate.Cost
	}
	l.count(h.model, taken)
	l.settled.Broadcast()
}

// wait returns when all that was reserved is settled.
func (l *ledger) wait() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for l.held.Requests > 0 {
		l.settled.Wait()
	}
}

// note records that a request was refused for what it asked for.
func (l *ledger) note(refusal *responses.Error) {
	if refusal.Code == responses.CodeForbidden {
		l.record(refusal.Message)
	}
}

// record adds to what was refused.
func (l *ledger) record(what string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.refused) < maxRefused && !slices.Contains(l.refused, what) {
		l.refused = append(l.refused, what)
	}
}

// account returns what was taken so far.
func (l *ledger) account() Account {
	l.mu.Lock()
	defer l.mu.Unlock()
	return Account{Usage: l.total, Budget: l.budget, Exhausted: l.exhausted, Models: maps.Clone(l.models),
		Refused: slices.Clone(l.refused), ListPricesOf: l.listOf}
}

// standing is account as if what runs had ended with what was estimated of it:
// what is left of a request whose gateway is killed.
func (l *ledger) standing() Account {
	a := l.account()
	l.mu.Lock()
	defer l.mu.Unlock()
	a.Usage = plus(l.total, Usage{Estimated: l.held.Requests, Tokens: Tokens{Input: l.held.Total}, Total: l.held.Total,
		Cost: l.held.Cost})
	return a
}
