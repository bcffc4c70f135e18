package sqlite

import (
	"time"

	"holon/state/ledger"
)

// WorkItem implements ledger.WorkView.
func (v *view) WorkItem(id string) (ledger.WorkItem, error) {
	return get(v, "work_item", id, scanRecord[ledger.WorkItem], "SELECT data FROM work_items WHERE id = ?")
}

// OpenWork implements ledger.WorkView.
func (v *view) OpenWork(agentID string) ([]ledger.WorkItem, error) {
	return list(v, "open work items", scanRecord[ledger.WorkItem],
		"SELECT data FROM work_items WHERE agent_id = ? AND state = 'open' ORDER BY n", agentID)
}

// CompletedWork implements ledger.WorkView.
func (v *view) CompletedWork(agentID string, limit int) ([]ledger.WorkItem, error) {
	return tail(
		v,
		"completed work items",
		scanRecord[ledger.WorkItem],
		"SELECT data FROM work_items WHERE agent_id = ? AND state = 'completed' ORDER BY ended_at DESC, n DESC LIMIT +?",
		agentID,
		limited(limit),
	)
}

// DeliverySummary implements ledger.WorkView.
func (v *view) DeliverySummary(workItemID string) (ledger.DeliverySummary, bool, error) {
	return find(v, "delivery summary", scanRecord[ledger.DeliverySummary],
		"SELECT data FROM delivery_summaries WHERE work_item_id = ?", workItemID)
}

// DueWork implements ledger.WorkView.
func (v *view) DueWork(now time.Time, limit int) ([]ledger.WorkItem, error) {
	return list(v, "due work items", func(r *row) (w ledger.WorkItem) {
		id, agentID := r.text(), r.text()
		if !r.sound(&w) {
			w = ledger.WorkItem{ID: id, AgentID: agentID}
		}
		return w
	}, "SELECT id, agent_id, data FROM work_items WHERE parked = 0 AND due_at <= ? ORDER BY due_at LIMIT +?",
		millis(now), limited(limit))
}

func keepWork(w ledger.WorkItem) ledger.WorkItem {
	w.RecheckAt, w.RecheckConsumedAt = keptOrNil(w.RecheckAt), keptOrNil(w.RecheckConsumedAt)
	w.PickedAt, w.CompletedAt = keptOrNil(w.PickedAt), keptOrNil(w.CompletedAt)
	w.CreatedAt, w.UpdatedAt = kept(w.CreatedAt), kept(w.UpdatedAt)
	return w
}

// recheck is when an item is looked at again, nil when it is not or that was done.
func recheck(w ledger.WorkItem) *time.Time {
	if w.State != ledger.WorkOpen || w.RecheckConsumedAt != nil {
		return nil
	}
	return w.RecheckAt
}

// InsertWorkItem implements ledger.WorkTx.
func (t *tx) InsertWorkItem(w ledger.WorkItem) error {
	data, err := encode(keepWork(w))
	if err != nil {
		return err
	}
	_, err = t.write(`INSERT INTO work_items (id, agent_id, state, ended_at, due_at, parked, data)
		VALUES (?1, ?2, ?3, ?4, ?5, coalesce((SELECT stopped FROM lanes WHERE agent_id = ?2), 0), ?6)`,
		w.ID, w.AgentID, string(w.State), millisOrNil(w.CompletedAt), millisOrNil(recheck(w)), data)
	return changed("insert", "work_item", ledger.CodeConflict, err)
}

// UpdateWorkItem implements ledger.WorkTx.
func (t *tx) UpdateWorkItem(w ledger.WorkItem) error {
	data, err := encode(keepWork(w))
	if err != nil {
		return err
	}
	return t.replace("work_item", w.ID, `UPDATE work_items SET state = ?, ended_at = ?, due_at = ?,
		parked = (SELECT stopped FROM lanes WHERE lanes.agent_id = work_items.agent_id), data = ? WHERE id = ?`,
		string(w.State), millisOrNil(w.CompletedAt), millisOrNil(recheck(w)), data, w.ID)
}

// InsertDeliverySummary implements ledger.WorkTx.
func (t *tx) InsertDeliverySummary(d ledger.DeliverySummary) error {
	d.CreatedAt = kept(d.CreatedAt)
	data, err := encode(d)
	if err != nil {
		return err
	}
	_, err = t.write("INSERT INTO delivery_summaries (work_item_id, data) VALUES (?, ?)", d.WorkItemID, data)
	return changed("insert", "delivery_summary", ledger.CodeConflict, err)
}
