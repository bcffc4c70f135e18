// Package rules holds the decisions of the runtime specification about messages and
// turns, as pure functions: the authority of a message, the meaning of a turn's end,
// whether a trigger needs the model, the status of an agent.
package rules
