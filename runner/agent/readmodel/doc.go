// Package readmodel folds the record of one agent into the thirteen read models of the Agent Runtime standard.
//
// A fold knows nothing but the events: what they do not say is "unknown", and what this runtime cannot have is
// "not_applicable". Its memory is bounded by windows of the newest things, next to counts of all. Events are applied in
// the order of the record; one that was applied already changes nothing. A fold is not safe for concurrent use.
package readmodel
