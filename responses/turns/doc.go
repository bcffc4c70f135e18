// Package turns holds the types that agentd and its host share in addition to the
// Open Responses protocol: the record of a turn (turn.json), its runtime events
// (runtime.ndjson), and the answer of GET /health. Both sides import it and neither
// imports the other. It does no I/O.
//
// Everything is snake_case on the wire. Data from a container is hostile until [DecodeRecord],
// [DecodeRuntimeEvent] or [DecodeHealth] has checked it; those bound nesting, lengths, ids and paths, and callers bound
// the bytes they read. Unknown keys are ignored, so that an older host can read
// a newer agentd; another schema name is an error.
//
// The package defines the form of these files, and agentd/record when they are
// written.
package turns
