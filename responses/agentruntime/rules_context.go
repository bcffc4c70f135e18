package agentruntime

func contextRules() []Rule {
	return []Rule{
		{Number: 71, On: []string{"model.requested"}, check: checkContext,
			Statement: "context.resolved precedes the first model request of a turn."},
		{Number: 72, On: []string{"context.compaction.completed"}, check: checkPreserved,
			Statement: "A compaction says which actions, incidents and evidence it preserved."},
		{Number: 73, Why: "needs the read models",
			Statement: "A rollback keeps the old events and shows the surviving state."},
		{Number: 74, Why: "needs a live server",
			Statement: "Continuing an older response starts a thread that names its origin."},
	}
}

func checkContext(f *finding) {
	turn := f.turnOf(f.Event)
	f.must(turn == nil || turn.seen["context.resolved"] > 0, "no context.resolved", "context.resolved before it")
}

func checkPreserved(f *finding) {
	f.has("preserved.actions", "preserved.incidents", "preserved.evidence")
}
