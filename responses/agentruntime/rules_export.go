package agentruntime

func exportRules() []Rule {
	rule := func(number int, why, statement string) Rule {
		return Rule{Number: number, Why: why, Statement: statement}
	}
	const export, live = "needs an export", "needs a live server"
	return []Rule{
		rule(85, export, "An export is a consistent cut of the log."),
		rule(86, export, "Evidence, replay, review and status agree about every status."),
		rule(87, export, "An export of a failed turn has its failed tools, attempts and denials."),
		rule(88, export, "Known gaps hold only signals that apply."),
		rule(89, live, "Without an optional producer a fact is unknown, never a success."),
		rule(90, live, "No text of the assistant changes a status."),
		rule(91, "needs recorded streams of providers", "A replay gives the same stream but for ids and times."),
		rule(92, live, "A client cannot write facts."),
		rule(93, export, "A redaction keeps reason, owner and policy."),
		rule(94, export, "Exports of benchmarks join dataset, trial, run and turn."),
	}
}
