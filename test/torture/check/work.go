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
	"holon/runner/agent/record"
	"holon/state/ledger"
)

// Objectives of work items that the laws know of: Pair is of those that are completed two in a round, Idle of those for
// which turns change nothing.
const (
	Pair = "one of a pair"
	Idle = "nothing to do"
)

var workLaws = []law{
	{"a completed work item was not completed once", `SELECT w.agent_id, w.id, count(e.seq) FROM work_items w
		LEFT JOIN ` + labelled + ` e ON e.agent_id = w.agent_id AND e.ref = w.id AND e.type = 'work_item_completed'
		WHERE w.state = 'completed' GROUP BY w.id HAVING count(e.seq) <> 1`},
	{"a work item that is open has a report", `SELECT w.agent_id, w.id FROM work_items w
		JOIN delivery_summaries d ON d.work_item_id = w.id WHERE w.state = 'open'`},
	{"the report of a work item was not told once", `SELECT w.agent_id, w.id, count(e.seq) FROM work_items w
		LEFT JOIN delivery_summaries d ON d.work_item_id = w.id
		LEFT JOIN ` + labelled + ` e ON e.agent_id = w.agent_id AND e.ref = w.id
			AND e.type = 'work_item_completion_report_promoted'
		GROUP BY w.id HAVING count(e.seq) <> count(DISTINCT d.work_item_id)`},
	{"a work item has the report of a round that completed two", `SELECT w.agent_id, w.id FROM work_items w
		JOIN delivery_summaries d ON d.work_item_id = w.id WHERE json_extract(w.data, '$.objective') = '` + Pair + `'`},
	{"the current work item is not open", `SELECT l.agent_id, json_extract(l.data, '$.current_work_item_id') FROM agent_states l
		LEFT JOIN work_items w ON w.id = json_extract(l.data, '$.current_work_item_id') AND w.state = 'open'
			AND w.agent_id = l.agent_id
		WHERE coalesce(json_extract(l.data, '$.current_work_item_id'), '') <> '' AND w.id IS NULL`},
	{"a work item that may run has no turn to come", `SELECT w.agent_id, w.id FROM work_items w
		JOIN agent_states l ON l.agent_id = w.agent_id
		WHERE w.state = 'open' AND coalesce(json_extract(w.data, '$.blocked_by'), '') = ''
			AND coalesce(json_extract(w.data, '$.plan_status'), '') <> 'needs_input'
			AND l.stopped = 0 AND coalesce(json_extract(l.data, '$.work_held'), '') = ''
			AND json_extract(l.data, '$.pending_wake') IS NULL
			AND coalesce(json_extract(l.data, '$.progress.idle'), 0) < 12
			AND coalesce(json_extract(l.data, '$.progress.turns'), 0) < 100
			AND NOT EXISTS (SELECT 1 FROM entries q
				WHERE q.agent_id = w.agent_id AND q.status IN ('queued', 'dequeued'))
			AND NOT EXISTS (SELECT 1 FROM attempts a WHERE a.agent_id = w.agent_id AND a.status = 'open')
			AND NOT EXISTS (SELECT 1 FROM waits v WHERE v.agent_id = w.agent_id AND v.status = 'active'
				AND (v.owner = w.id OR v.owner = 'agent' AND json_extract(v.data, '$.kind') <> 'system'))`},
}

// observation is an event that the ticks of an agent are judged by. of is the work item that it tells of.
type observation struct {
	agent, event, message, subsystem, objective, of string
	at                                              time.Time
	waits                                           bool // the item is blocked, needs input, or is completed
}

// Paced checks the ticks about work in the order of the events: none is begun for an item that is blocked, and those
// that change nothing are 1 s, 2 s, 4 s … at most 5 min apart, the first excepted. It returns how many pauses it saw.
func (l *Ledger) Paced(ctx context.Context) (pauses int, err error) {
	p := pace{waiting: make(map[string]bool), begun: make(map[string]bool)}
	var errs []error
	err = l.each(ctx, func(rows *sql.Rows) error {
		var m observation
		var at int64
		err := rows.Scan(&m.agent, &m.event, &m.message, &at, &m.subsystem, &m.objective, &m.of, &m.waits)
		m.at = time.UnixMilli(at)
		errs = append(errs, p.take(m))
		return err
	}, `SELECT e.agent_id, e.type, coalesce(e.message_id, ''), e.created_at,
			coalesce(json_extract(m.data, '$.origin.subsystem'), ''),
			coalesce(json_extract(m.data, '$.body.value.objective'), ''),
			coalesce(json_extract(m.data, '$.source_refs.work_item_id'), e.ref, ''),
			coalesce(json_extract(e.data, '$.work_item.blocked_by'), '') <> ''
				OR coalesce(json_extract(e.data, '$.work_item.plan_status'), '') = 'needs_input'
				OR coalesce(json_extract(e.data, '$.work_item.state'), '') = 'completed'
		FROM `+labelled+` e LEFT JOIN messages m ON m.id = e.message_id
		WHERE e.type IN ('message_processing_started', 'queue_entry_settled', 'work_item_written', 'work_item_picked',
			'work_item_completed', 'operator_interjection_admitted', 'control_applied')
		ORDER BY e.agent_id, e.seq`)
	return p.pauses, errors.Join(append(errs, err)...)
}

// pace is what is known of an agent before a moment.
type pace struct {
	agent   string
	waiting map[string]bool // items that must not run
	begun   map[string]bool // messages
	idle    int             // ticks in a row that changed nothing
	last    string          // message of the newest tick of those
	ended   time.Time       // of it; zero while it runs
	pauses  int
}

func (p *pace) take(m observation) error {
	if m.agent != p.agent {
		p.agent, p.idle = m.agent, 0
	}
	switch m.event {
	case "work_item_written", "work_item_picked", "work_item_completed":
		p.waiting[m.of], p.idle = m.waits, 0
	case "queue_entry_settled":
		if m.message == p.last {
			p.ended = m.at
		}
	case "message_processing_started":
		return p.start(m)
	default:
		p.idle = 0
	}
	return nil
}

// start judges the begin of a message. One that came back goes on with a turn that was allowed.
func (p *pace) start(m observation) error {
	again := p.begun[m.message]
	p.begun[m.message] = true
	tick := m.subsystem == "work_queue"
	switch {
	case again:
		p.idle = 0
		return nil
	case tick && p.waiting[m.of]:
		return fmt.Errorf("the tick %s of %s was begun for %s, which is blocked or completed", m.message, m.agent, m.of)
	case !tick || m.objective != Idle:
		p.idle = 0
		return nil
	}
	n, last, ended := p.idle, p.last, p.ended
	p.idle, p.last, p.ended = n+1, m.message, time.Time{}
	if n == 0 || ended.IsZero() {
		return nil
	}
	p.pauses++
	least := min(time.Second<<min(n-1, 12), 5*time.Minute)
	if got := m.at.Sub(ended); got < least-2*time.Millisecond { // times are cut to milliseconds
		return fmt.Errorf("the tick %s of %s was begun %s after %s, the %d. that changed nothing; it may after %s",
			m.message, m.agent, got, last, n, least)
	}
	return nil
}

// maxBroken bounds the violations that are named.
const maxBroken = 8

// Recorded holds the whole record of every agent to the rules of the Agent Runtime standard at level C.
func (l *Ledger) Recorded(ctx context.Context) error {
	var broken []error
	validators := map[string]*agentruntime.Validator{}
	err := l.each(ctx, func(rows *sql.Rows) error {
		var seq int64
		var data []byte
		var e ledger.Event
		if err := rows.Scan(&seq, &data); err != nil {
			return err
		}
		if err := json.Unmarshal(data, &e); err != nil {
			return err
		}
		e.Seq = seq
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
