// Package conform checks servers of the Open Responses protocol from outside:
// [Checker] and [CheckStream] decide whether a sequence of events is legal, and
// [Run] puts a server through the shapes that every client relies on.
//
// A legal sequence follows the working grammar and keeps the invariants that
// some client breaks without (Open Responses, "Streaming"):
//
//	stream    := created queued? in_progress item* (completed | failed | incomplete)
//	item      := output_item.added body output_item.done
//	message   := ( content_part.added ( output_text.delta* output_text.done | refusal.delta* refusal.done ) content_part.done )*
//	call      := function_call_arguments.delta* function_call_arguments.done
//	reasoning := ( summary_part.added summary_text.delta* summary_text.done summary_part.done
//	             | content_part.added reasoning.delta* reasoning.done content_part.done )*
//
// with annotations anywhere in an open output_text part, and failed or
// incomplete also before in_progress. This is stricter than
// the protocol's schemas, which allow any order, and stricter than the official
// suite. The package shares no code with the Emitter it is used to test: it
// reads plain JSON. It is meant for tests, bounds each event but not their
// number, and says nothing about what a model answered.
package conform
