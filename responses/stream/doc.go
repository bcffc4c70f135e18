// Package stream puts one sequence of Open Responses events on a wire and
// takes it off again. There are two framings: server-sent events, which every
// client reads, and NDJSON, one event a line, which is also the form of
// events.ndjson.
//
// Encoding appends to a buffer that the caller reuses and writes once, so that
// an event never arrives in pieces; some readers lose it then. github.com/tmaxmax/go-sse
// writes and parses the server-sent events.
//
// Decoding takes any mixture of line ends and any split into reads, bounds each
// event by [Decoder.Limit], costs time linear in the input, and always ends with a
// reason: nil only when the stream said that it was over. It does not check that
// the sequence of events is a legal one; package responses/conform does.
package stream
