package agentruntime

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// queueOps says where an entry of a queue is when something is done to it: waiting, claimed by a turn until it is
// settled, or out of the queue. What a restoration finds is not in the log.
var queueOps = map[string][]string{
	"enqueue": {"out", "claimed"}, "dequeue": {"waiting"}, "promote": {"waiting"}, "remove": {"waiting"},
	"interject": {"waiting"}, "drop": {"waiting"}, "settle": {"claimed"}, "restore": {"out", "waiting", "claimed"},
}

// queueStatuses are what an entry is after something was done to it.
var queueStatuses = map[string][]string{"enqueue": {"queued"}, "promote": {"queued"}, "dequeue": {"running"},
	"interject": {"running"}, "remove": queueEnds, "drop": queueEnds, "settle": queueEnds}

var queueEnds = []string{"completed", "failed", "cancelled", "lost"}

func checkQueue(f *finding) {
	q, entry, op := f.queueOf(f.Event), queueEntry(f.Event), f.text("op")
	from, ok := queueOps[op]
	if !ok {
		f.report(fmt.Sprintf("op %.40q", op), strings.Join(slices.Sorted(maps.Keys(queueOps)), ", "))
		return
	}
	if entry == "" && op != "restore" { // which may be of all of a queue
		f.report(op+" of no entry", "payload.entry with queued_turn_id or message_id")
		return
	}
	statuses := queueStatuses[op]
	f.must(f.Status == "" || statuses == nil || slices.Contains(statuses, f.Status),
		fmt.Sprintf("status %.40q after %s", f.Status, op), strings.Join(statuses, ", "))
	is := q.place(entry)
	before := f.partial && is == "out" && !f.closed.set["entry "+f.IDs[Queue]+" "+entry]
	f.must(before || slices.Contains(from, is), op+" of "+entry+", which is "+is,
		"one that is "+strings.Join(from, " or "))
	checkPriority(f, q, entry, op)
	checkDepth(f, q, is, op)
}

func checkPriority(f *finding, q *queue, entry, op string) {
	priority, had := f.text("entry.priority"), cmp.Or(q.waiting[entry], q.claimed[entry])
	f.must(priority == "" || had == "" || priority == had || op == "enqueue" || op == "promote" || op == "restore",
		fmt.Sprintf("priority %.40q of %s", priority, entry), had+", until it is promoted")
}

// checkDepth compares the depth that an event gives with that of the queue after it. is is where the entry was.
func checkDepth(f *finding, q *queue, is, op string) {
	depth := len(q.waiting)
	if op == "enqueue" && is != "waiting" {
		depth++
	} else if is == "waiting" && op != "enqueue" && op != "promote" {
		depth--
	}
	if given, ok := f.number("depth"); ok && !f.partial && op != "restore" {
		f.must(given == float64(depth), fmt.Sprintf("depth %v after %s", given, op), fmt.Sprint(depth))
	}
}

func checkBusy(f *finding) {
	running := f.threadOf(f.Event).running
	f.must(running == "" || running == f.IDs[Turn], f.IDs[Turn]+" starts while "+running+" runs", "its end first")
}
