package postgres

import (
	"context"
	"database/sql"

	"holon/state"
)

// busy selects the agents that have something to do, or a tree, which stays on its host.
const busy = `SELECT agent_id FROM attempts WHERE status = 'open'
	UNION SELECT agent_id FROM entries WHERE status = 'queued' OR status = 'dequeued'
	UNION SELECT agent_id FROM tasks WHERE open = 1
	UNION SELECT agent_id FROM trees WHERE status <> 'removed'`

// idle selects the leases of a holder whose agents have nothing to do.
const idle = `SELECT agent_id, fence FROM leases JOIN agents ON id = agent_id WHERE holder = $1 AND archived = 0
	AND agent_id NOT IN (SELECT split_part(agent_id, $2, 1) FROM (` + busy + `) AS b)`

// Give implements ledger.Leases.
func (h *holder) Give(ctx context.Context, leave func(root string, give func() error) error) error {
	if !h.mayGive() {
		return nil
	}
	var spare int
	var found []lease
	t, err := h.reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err == nil {
		defer t.Rollback()
		var s shares
		if s, err = h.shares(ctx, t); err == nil && s.held > s.most {
			spare = s.held - s.most
			found, err = rows(ctx, t, idle, h.id, state.ChildMark)
		}
	}
	for _, l := range found {
		if err == nil && spare > 0 {
			err = leave(l.id, func() error { spare--; return h.give(ctx, l) })
		}
	}
	return failed("give up the leases of agents", err)
}

// mayGive reports, once after each renewal while others share the ledger, that it is time to look whether they have
// less.
func (h *holder) mayGive() (may bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	may, h.renewed = h.renewed && h.others > 0, false
	return may
}

// give gives a lease up, unless its agent got something to do. Nothing runs it meanwhile; when it is not known whether
// it was given up, Take finds it.
func (h *holder) give(ctx context.Context, l lease) error {
	h.mu.Lock()
	delete(h.held, l.id)
	h.mu.Unlock()
	given := false
	err := h.within(ctx, func(t *sql.Tx) error {
		list, err := rows(ctx, t, "UPDATE leases SET holder = '' WHERE agent_id = $3 AND agent_id IN (SELECT agent_id FROM ("+
			idle+") AS i) RETURNING agent_id, fence", h.id, state.ChildMark, l.id)
		given = len(list) > 0
		return err
	})
	if err == nil && !given {
		h.hold(l)
	}
	return err
}
