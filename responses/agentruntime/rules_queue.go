package agentruntime

import "fmt"

func queueRules() []Rule {
	rule := func(number int, why, statement string) Rule {
		return Rule{Number: number, Why: why, Statement: statement}
	}
	const restart, live, models = "needs the state after a restart", "needs a live server", "needs the read models"
	return []Rule{
		{Number: 51, On: []string{"queue.changed"}, check: checkQueue,
			Statement: "What leaves a queue or is promoted was in it, what enters it was not, and depth is the number of " +
				"entries."},
		rule(52, restart, "No accepted message is lost or doubled by a crash."),
		{Number: 53, On: []string{"turn.started"}, check: checkBusy, Statement: "A thread runs one turn at a time."},
		rule(54, live, "The queue gives the highest priority first, and the oldest within it."),
		rule(55, models, "Replaying the log gives the stored read models."),
		rule(56, restart, "Read models that were deleted are rebuilt equal."),
		rule(57, restart, "A turn that ran at a crash is lost or goes on."),
		rule(58, live, "Reconnecting at a cursor returns exactly what is after it."),
		rule(59, models, "A snapshot and the later events are all of the log."),
		rule(60, live, "Opening a long session reads a bounded number of rows."),
		rule(61, live, "A stopped agent refuses external input."),
	}
}

func checkQueue(f *finding) {
	entries, entry := f.queues[f.IDs[Queue]], queueEntry(f.Event)
	depth := len(entries)
	switch op := f.text("op"); op {
	case "enqueue":
		f.must(!entries[entry], "enqueue of "+entry+" that is queued", "one entry each")
		depth++
	case "dequeue", "remove", "drop", "interject":
		before := f.partial && !f.closed.set["entry "+f.IDs[Queue]+" "+entry]
		f.must(entries[entry] || before, op+" of "+entry+" that is not queued", "enqueue before it")
		depth--
	case "promote":
		f.must(entries[entry] || f.partial, op+" of "+entry+" that is not queued", "enqueue before it")
	case "restore", "settle":
		return // what a restore or a settlement found is not in the log
	default:
		f.report(fmt.Sprintf("op %.40q", op),
			"enqueue, dequeue, promote, remove, interject, restore, drop or settle")
		return
	}
	if said, ok := f.number("depth"); ok && !f.partial {
		f.must(said == float64(depth), fmt.Sprintf("depth %v after %s", said, f.text("op")), fmt.Sprint(depth))
	}
}

func checkBusy(f *finding) {
	running := f.threadOf(f.Event).running
	f.must(running == "" || running == f.IDs[Turn], f.IDs[Turn]+" starts while "+running+" runs", "its end first")
}
