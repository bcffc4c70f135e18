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

	"holon/responses/agentruntime"
	"holon/runner/agent/record"
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
		recorded := record.RuntimeEvent(e, record.Log{RuntimeID: "rt_torture"})
		v.Event(e.AgentID, int(e.Seq), &recorded)
		return nil
	}, `SELECT seq, data FROM main.events ORDER BY agent_id, seq`)
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
	var data []byte
	if err := rows.Scan(&e.Seq, &data); err != nil {
		return e, err
	}
	seq := e.Seq
	err = json.Unmarshal(data, &e)
	e.Seq = seq
	return e, err
}
