// Package responses holds the nouns of the Open Responses protocol, release
// 2026-04-24: requests, items and their content parts, the response object,
// the stream events, errors and ids. It does no I/O and imports nothing of ours,
// so that both sides of the socket share one definition of the wire.
//
// # Why not the SDK's types
//
// The types of openai-go are made for callers. Decoding a request into them
// drops an input message that has no "type" without an error, unknown request
// fields vanish, and encoding a response writes every union arm and optional
// field that is empty. A server has the opposite duties: accept what clients
// really send, refuse what would change meaning, and write each of the 31
// response keys with exactly the right choice of value, null or absent. The
// SDK's types stay where they fit, on the side that calls a provider.
//
// # Streams
//
// A stream can only be made with an [Emitter]. It owns ids, indices and
// sequence numbers and knows which event may follow which, so a caller can say
// what happened (text arrived, a call began, the model failed) but has no way
// to say it in an order or with a number that a client would reject. Package
// responses/conform checks streams made by others.
//
// # Null and absent
//
// A Go pointer that is nil is written as null where the protocol demands the
// key, and left out where the protocol forbids null. Slices are never null.
package responses
