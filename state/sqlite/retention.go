package sqlite

import (
	"fmt"
	"strings"
)

// bound is what decides how long the rows of a table stay.
type bound string

const (
	forever bound = "stays"          // as long as the ledger
	byEvent bound = "events"         // Retention.Events and Retention.MaxEvents
	byAge   bound = "messages"       // Retention.Messages, counted from the row's created_at
	withRow bound = "with its owner" // the row that it belongs to takes it along
)

// declared is the retention of one table, in one place: how long its rows stay, what names them, and what becomes of
// what names them when they go.
type declared struct {
	table string
	bound bound
	// key is the column by which rows of byAge are found, the oldest first; it grows with time.
	key string
	// spared is the condition under which a row of byAge stays at any age.
	spared string
	// names are the tables with a column that holds the id of a row of this one.
	names []string
	// then says what a reader of such a row gets when this one is gone.
	then string
}

// retention declares every table of the ledger. Tables of byAge are pruned in this order: messages before the records
// that were made from them.
func retention() []declared {
	return []declared{
		{table: "meta", bound: forever},
		{table: "agents", bound: forever, names: strings.Fields("agent_states messages entries attempts turns waits timers " +
			"triggers briefs notifications events work_items tasks expired_outputs commands")},
		{table: "agent_states", bound: forever},
		{table: "messages", bound: byAge, key: "id", spared: `EXISTS (SELECT 1 FROM entries
			WHERE message_id = messages.id AND status IN ('queued', 'dequeued')) OR id IN (
			SELECT message_id FROM attempts WHERE status = 'open'
			UNION ALL SELECT message_id FROM waits WHERE status IN ('active', 'triggered')
			UNION ALL SELECT message_id FROM timers WHERE status = 'active'
			UNION ALL SELECT wake_message FROM agent_states)`,
			names: []string{"entries", "attempts", "waits", "timers", "events", "agent_states"},
			then:  "the event or record is shown without the message"},
		{table: "entries", bound: withRow},
		{table: "briefs", bound: byAge, key: "n", names: []string{"events"}, then: "the event is shown without the brief"},
		{table: "notifications", bound: byAge, key: "n", names: []string{"events"},
			then: "the event is shown without the notification"},
		{table: "expired_outputs", bound: byAge, key: "n", then: "a reader of the turn does not see that its files are gone"},
		{table: "commands", bound: byAge, key: "n", then: "the command is carried out again if it comes again"},
		{table: "turns", bound: byAge, key: "n",
			spared: `number = (SELECT max(number) FROM turns AS other WHERE other.agent_id = turns.agent_id)
			OR response_id = (SELECT chain FROM agent_states AS s WHERE s.agent_id = turns.agent_id)`,
			names: []string{"events", "agent_states"}, then: "the event is shown without the record of the turn"},
		{table: "attempts", bound: byAge, key: "id", spared: "status = 'open' OR id IN (SELECT attempt_id FROM waits " +
			"WHERE status IN ('active', 'triggered'))",
			names: []string{"entries", "prompts", "waits"}, then: "nothing: who asks has ended before"},
		{table: "prompts", bound: withRow},
		{table: "waits", bound: byAge, key: "n", spared: "status IN ('active', 'triggered') OR EXISTS (SELECT 1 FROM " +
			"attempts WHERE attempts.status = 'open' AND instr(' ' || wait_id || ' ', ' ' || waits.id || ' ') > 0)",
			names: []string{"attempts"}, then: "nothing: events have a copy of the wait"},
		{table: "timers", bound: byAge, key: "n", spared: "status = 'active'",
			then: "nothing: events have a copy of the timer"},
		{table: "triggers", bound: forever, then: "nothing: events have a copy of the trigger"},
		{table: "events", bound: byEvent, then: "a reader of the record gets the gap"},
		{table: "tasks", bound: byAge, key: "n", spared: `open = 1 OR (SELECT count(*) FROM tasks AS newer
			WHERE newer.agent_id = tasks.agent_id AND newer.n > tasks.n) < 2000`, // more than agentd reports
			names: []string{"messages", "events"}, then: "the message or event is shown without the task"},
		{table: "work_items", bound: forever, names: []string{"delivery_summaries"}},
		{table: "delivery_summaries", bound: forever},
	}
}

// oldest selects the rows of a table, the oldest first: key, age, and whether the row stays.
func (d declared) oldest() string {
	spared := d.spared
	if spared == "" {
		spared = "0"
	}
	return fmt.Sprintf("SELECT %[1]s, created_at, %[2]s FROM %[3]s ORDER BY %[1]s", d.key, spared, d.table)
}
