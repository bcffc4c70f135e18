package check

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"

	"holon/responses/agentruntime"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

// maxBroken bounds the violations that are named.
const maxBroken = 8

// Recorded holds the whole record of every agent to the rules of the Agent Runtime standard at level C.
func (l *Ledger) Recorded(ctx context.Context) error {
	var broken []error
	validators := map[string]*agentruntime.Validator{}
	err := l.each(ctx, func(rows *sql.Rows) error {
		e, err := recordedEvent(rows)
		if err != nil {
			return err
		}
		v := validators[e.AgentID]
		if v == nil {
			v = newValidator(&broken)
			validators[e.AgentID] = v
		}
		recorded := view.RuntimeEvent(e, view.Log{RuntimeID: "rt_torture"})
		v.Event(e.AgentID, int(e.Seq), &recorded)
		return nil
	}, `SELECT agent_id, seq, id, created_at, type, message_id, turn_id, ref, data, class,
		status, ids, cause, producer_seq FROM events ORDER BY agent_id, seq`)
	return errors.Join(append(broken, err)...)
}

// newValidator notes the first violations that it finds.
func newValidator(broken *[]error) *agentruntime.Validator {
	return agentruntime.NewValidator(agentruntime.LevelC, func(found agentruntime.Violation) {
		if len(*broken) < maxBroken {
			*broken = append(*broken, fmt.Errorf("%s:%d (%s) breaks %s: %s instead of %s", found.File, found.Line,
				found.EventID, found.Rule, found.Got, found.Want))
		}
	})
}

// Alone holds the facts of all turns below a directory, whose agentd has ended, to the rules of the Agent Runtime
// standard at level C: the turns of a thread are one log, the first event of each tells their order.
func Alone(dir string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*", runtimeFile))
	if err != nil {
		return err
	}
	logs := map[string][]byte{}
	var order []string
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var first struct {
			EventID string `json:"event_id"`
		}
		line, _, _ := bytes.Cut(data, []byte("\n"))
		if err := json.Unmarshal(line, &first); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		order = append(order, first.EventID+path)
		logs[first.EventID+path] = data
	}
	slices.Sort(order)
	var broken []error
	v := newValidator(&broken)
	for _, name := range order {
		if err := v.Read(name, bytes.NewReader(logs[name])); err != nil {
			return err
		}
	}
	return errors.Join(broken...)
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
