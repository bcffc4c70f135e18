// Package openapi describes the wire of this project as an OpenAPI 3.1
// document: the schemas of Open Responses as this server reads and writes them,
// of turns and of tasks, and the frame into which a server puts its routes.
//
// What encoding/json writes by a type's tags is described by reflection on that
// type; what a type encodes or decodes by itself is described by hand, in the
// same order as the code that does it. Neither is believed: the tests encode
// random values of every type and demand that the result has no key that is not
// described and every key that is described as required, and decode random
// requests and demand that decoder and schema agree.
//
// Schemas of the protocol have the names of the protocol's own document
// (release 2026-04-24), so that the two can be compared name by name. Where two
// schemas of a thing exist, the one that ends in Param is what a request may
// hold, the other is what an answer holds.
//
// The package does no I/O and keeps nothing; making all schemas takes about a
// millisecond, so a server does it when it is first asked.
package openapi
