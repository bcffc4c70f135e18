// Package record is the log of an agent and what is folded from it.
//
//	container ─▶ Fact, Text ─▶ ledger.Event ─▶ folds: transcript, tool executions, rows, read models, exports
//
// An event has a class of the Agent Runtime standard; the audit names of the runtime's surface are labels of classes
// (Labels). The invariant: a fold reads events and nothing else, so that a replay shows what was; an event that was
// applied already changes nothing. Folds are bounded and not safe for concurrent use.
package record
