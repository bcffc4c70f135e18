// Package conform checks servers of the Open Responses protocol from outside:
// [Checker] and [CheckStream] decide whether a sequence of events is legal, and
// the [Cases] of a [Suite] put a server through what clients rely on: the cases
// of the official compliance suite under their own ids, and more.
//
// A legal sequence follows the working grammar and keeps the invariants that
// some client breaks without (Open Responses, "Streaming"):
//
//	stream    := created queued? in_progress item* (completed | failed | incomplete)
//	item      := output_item.added body output_item.done
//	message   := ( content_part.added
//	               ( output_text.delta* output_text.done | refusal.delta* refusal.done ) content_part.done )*
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
//
// A model suits the cases when it calls get_weather where that is offered and
// the user asks for the weather, runs a command when told to, and talks
// otherwise. Any good one does; for scripted models there is
// test/clients/testdata/conformance.yaml.
package conform
