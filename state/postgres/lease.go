package postgres

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"

	"holon/state"
	"holon/state/ledger"
)

var _ ledger.Leases = (*holder)(nil)

// Held implements ledger.Leases.
func (h *holder) Held(agentID string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[state.RootAgent(agentID)] != 0
}

// Fence implements ledger.Leases.
func (h *holder) Fence(agentID string) int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.held[state.RootAgent(agentID)]
}

// Lost implements ledger.Leases.
func (h *holder) Lost() <-chan struct{} { return h.lost }

// Check implements ledger.Leases.
func (h *holder) Check(ctx context.Context, agentID string) error {
	if h.Held(agentID) {
		return nil
	}
	id := state.RootAgent(agentID)
	var owner string
	var fence int64
	var address sql.NullString
	err := h.within(ctx, func(t *sql.Tx) error {
		if _, err := t.ExecContext(ctx, "INSERT INTO leases (agent_id, holder) VALUES ($1, $2) "+
			"ON CONFLICT DO NOTHING", id, h.id); err != nil {
			return err
		}
		return t.QueryRowContext(ctx, "SELECT holder, fence, address FROM leases LEFT JOIN holders "+
			"ON holders.id = holder WHERE agent_id = $1", id).Scan(&owner, &fence, &address)
	})
	switch {
	case err != nil:
		return failed("take the lease of an agent", err)
	case owner == h.id:
		h.hold(lease{id, fence})
		return nil
	case !address.Valid:
		return &state.Error{Code: ledger.CodeElsewhere, Param: "agent_id", Hint: "ask again in a moment",
			Message: fmt.Sprintf("the holon serve that ran %.200s has ended, and another one is about to", id)}
	}
	return &state.Error{Code: ledger.CodeElsewhere, Param: "agent_id", Hint: "ask there: " + address.String,
		Message: fmt.Sprintf("another holon serve runs %.200s", id)}
}

// lease is one that this process has.
type lease struct {
	id    string
	fence int64
}

func (h *holder) hold(leases ...lease) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, l := range leases {
		h.held[l.id] = l.fence
	}
}

// shares are how many agents this process should have: their number by that of the processes, rounded up. While one is
// free some process has less, so each is taken. The lease of the sessions counts as no agent.
type shares struct {
	most, held int
	sessions   bool // their lease is free
}

func (h *holder) shares(ctx context.Context, t *sql.Tx) (s shares, err error) {
	var agents, holders int
	err = t.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM agents WHERE archived = 0 AND strpos(id, $2) = 0),
		(SELECT count(*) FROM holders WHERE expires_at > clock_timestamp() OR id = $1),
		(SELECT count(*) FROM leases JOIN agents ON id = agent_id WHERE holder = $1 AND archived = 0),
		NOT EXISTS (SELECT 1 FROM leases JOIN holders ON id = holder WHERE agent_id = $3)`, h.id, state.ChildMark,
		ledger.SessionsLease).Scan(&agents, &holders, &s.held, &s.sessions)
	s.most = (agents + holders - 1) / max(1, holders)
	return s, err
}

// free reports whether there is something to take, which needs no lock.
const free = `SELECT EXISTS (SELECT 1 FROM leases WHERE NOT EXISTS (SELECT 1 FROM holders WHERE id = holder))
	OR EXISTS (SELECT 1 FROM unnest(string_to_array($1, ' ')) AS id
		WHERE NOT EXISTS (SELECT 1 FROM leases WHERE agent_id = id AND holder <> $2))`

// Take implements ledger.Leases.
func (h *holder) Take(ctx context.Context, wanted []string) (taken []string, err error) {
	wanted = append([]string{ledger.SessionsLease}, wanted...)
	names := strings.Join(slices.DeleteFunc(wanted, h.Held), " ")
	var some bool
	if err := h.reader.QueryRowContext(ctx, free, names, h.id).Scan(&some); err != nil || !some {
		return nil, failed("look for agents that no process runs", err)
	}
	var all []lease
	err = h.within(ctx, func(t *sql.Tx) error {
		s, err := h.shares(ctx, t)
		if err != nil {
			return err
		}
		most := max(0, s.most-s.held)
		if s.sessions {
			most++
		}
		if all, err = rows(ctx, t, "SELECT agent_id, fence FROM leases WHERE holder = $1 AND "+
			"agent_id = ANY (string_to_array($2, ' '))", h.id, names); err != nil { // see give
			return err
		}
		left, err := rows(ctx, t, "UPDATE leases SET holder = $1, fence = greatest(fence + 1, "+
			"(extract(epoch FROM clock_timestamp()) * 1000)::bigint) WHERE agent_id IN (SELECT agent_id FROM leases "+
			"WHERE NOT EXISTS (SELECT 1 FROM holders WHERE id = holder) ORDER BY agent_id LIMIT $2) RETURNING agent_id, fence",
			h.id, most)
		if err != nil {
			return err
		}
		more, err := rows(ctx, t, "INSERT INTO leases (agent_id, holder) SELECT DISTINCT id, $1 FROM "+
			"unnest(string_to_array($3, ' ')) AS id WHERE NOT EXISTS (SELECT 1 FROM leases WHERE agent_id = id) LIMIT $2 "+
			"RETURNING agent_id, fence", h.id, most-len(left), names)
		all = slices.Concat(all, left, more)
		return err
	})
	if err != nil {
		return nil, failed("take the leases of agents", err)
	}
	h.hold(all...)
	for _, l := range all {
		taken = append(taken, l.id)
	}
	return taken, nil
}

// rows are the leases that a statement returns.
func rows(ctx context.Context, t *sql.Tx, text string, args ...any) (list []lease, err error) {
	found, err := t.QueryContext(ctx, text, args...)
	if err != nil {
		return nil, err
	}
	for found.Next() && err == nil {
		var l lease
		if err = found.Scan(&l.id, &l.fence); err == nil {
			list = append(list, l)
		}
	}
	return list, errors.Join(err, found.Err(), found.Close())
}
