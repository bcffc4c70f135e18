package control

import (
	"fmt"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"golang.org/x/time/rate"

	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// budgets bound what capabilities and webhooks may deliver, each on its own, so that
// one that leaked or whose sender went wild takes nothing from the others.
type budgets struct {
	mu    sync.Mutex
	table map[string]*budget
}

// budget fills up within a minute.
type budget struct{ messages, bytes *rate.Limiter }

const maxBudgets = 4096 // beyond it all are full again: there are not so many agents

// of returns the budget of a key.
func (b *budgets) of(key string, l Limits) *budget {
	b.mu.Lock()
	defer b.mu.Unlock()
	one := b.table[key]
	if one == nil {
		if b.table == nil || len(b.table) >= maxBudgets {
			b.table = make(map[string]*budget)
		}
		each := func(n int) *rate.Limiter { return rate.NewLimiter(rate.Limit(float64(n)/60), n) }
		one = &budget{each(l.Deliveries), each(l.Delivered)}
		b.table[key] = one
	}
	return one
}

// spend takes a message of size bytes from the budget of key, or says with 429 when there will be room.
func (s *Server) spend(w http.ResponseWriter, key string, size int) error {
	one, now := s.spent.of(key, s.limits), time.Now()
	message, body := one.messages.ReserveN(now, 1), one.bytes.ReserveN(now, min(size, s.limits.Delivered))
	wait := max(message.DelayFrom(now), body.DelayFrom(now))
	if wait == 0 {
		return nil
	}
	message.CancelAt(now)
	body.CancelAt(now)
	w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
	return &state.Error{Code: wire.CodeBusy, Message: "too much was delivered here",
		Hint: fmt.Sprintf("come back after Retry-After; %d messages and %d KiB a minute pass", s.limits.Deliveries,
			s.limits.Delivered>>10)}
}

// spendTrigger is spend for the trigger whose URL the request has. A token of none
// has no budget, since it delivers nothing.
func (s *Server) spendTrigger(w http.ResponseWriter, r *http.Request, size int) error {
	var t ledger.Trigger
	var known bool
	err := s.store.View(r.Context(), func(v ledger.View) (err error) {
		t, known, err = v.TriggerByHash(scheduler.TokenHash(chi.URLParam(r, "token")))
		return err
	})
	if err != nil || !known || t.Status != ledger.TriggerActive {
		return err
	}
	return s.spend(w, "trigger "+t.ID, size)
}
