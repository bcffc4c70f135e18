package check

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holon/responses/agentruntime"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// maxBroken bounds the violations that are named.
const maxBroken = 8

// Recorded holds the whole record of every agent to the rules of the Agent Runtime standard at level B.
func (l *Ledger) Recorded(ctx context.Context) error {
	rows, err := l.db.QueryContext(ctx, `SELECT agent_id, seq, id, created_at, type, message_id, turn_id, ref, data, class,
		status, ids, cause, producer_seq FROM events ORDER BY agent_id, seq`)
	if err != nil {
		return err
	}
	defer rows.Close()
	var broken []error
	validators := map[string]*agentruntime.Validator{}
	for rows.Next() {
		e, err := recordedEvent(rows)
		if err != nil {
			return err
		}
		v := validators[e.AgentID]
		if v == nil {
			v = agentruntime.NewValidator(agentruntime.LevelB, func(found agentruntime.Violation) {
				if len(broken) < maxBroken {
					broken = append(broken, fmt.Errorf("the record of agent %s breaks %s at event %d (%s): %s instead of %s",
						found.File, found.Rule, found.Line, found.EventID, found.Got, found.Want))
				}
			})
			validators[e.AgentID] = v
		}
		recorded := view.RuntimeEvent(e, view.Log{RuntimeID: "rt_torture"})
		v.Event(e.AgentID, int(e.Seq), &recorded)
	}
	return errors.Join(append(broken, rows.Err())...)
}

func recordedEvent(rows *sql.Rows) (e ledger.Event, err error) {
	var at int64
	var message, turn, ref, data, class, status, ids, cause sql.NullString
	var producer sql.NullInt64
	if err := rows.Scan(&e.AgentID, &e.Seq, &e.ID, &at, &e.Type, &message, &turn, &ref, &data, &class, &status, &ids,
		&cause, &producer); err != nil {
		return e, err
	}
	e.CreatedAt, e.MessageID, e.TurnID, e.Ref = time.UnixMilli(at).UTC(), message.String, turn.String, ref.String
	e.Class, e.Status, e.Cause, e.ProducerSeq = class.String, status.String, cause.String, producer.Int64
	if data.Valid {
		e.Data = json.RawMessage(data.String)
	}
	if ids.Valid {
		err = json.Unmarshal([]byte(ids.String), &e.IDs)
	}
	return e, err
}
