// Package agentruntime holds the vocabulary of the Agent Runtime standard: the event envelope, the classes with the
// ids that each needs, the statuses and their transitions, and a validator of the rules V1 to V94.
//
// Emitters and the validator use the same tables, so that a log cannot be written by one idea of the standard and
// checked by another. The package does no I/O except reading from the io.Reader that it is given. Names are in
// snake_case on this stream; an export may convert them.
//
// A validator keeps what is open (turns, tools, tasks, …), the threads, and a bounded number of recently closed ids.
// It never keeps the log. It is not safe for concurrent use.
package agentruntime
