// Package turns holds the nouns that agentd and its host share beside the Open
// Responses protocol: the record of a turn (turn.json), the runtime events
// beside its stream (runtime.ndjson), and the answer of GET /health. Both sides
// import it and neither imports the other. It does no I/O.
//
// Everything is snake_case on the wire. What a reader gets from a container is
// hostile until [DecodeRecord], [DecodeRuntimeEvent] or [DecodeHealth] has
// checked it; those bound nesting, lengths, ids and paths, and callers bound
// the bytes they read. Unknown keys are ignored, so that an older host can read
// a newer agentd; another schema name is an error.
//
// The package promises the form of these files and not when they are written:
// that is the business of agentd/record.
package turns
