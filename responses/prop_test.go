package responses_test

import (
	"errors"
	"fmt"
	"testing"

	"pgregory.net/rapid"

	"holon/responses"
	"holon/test/expect"
)

// verbs are all calls that an Emitter takes, including those that make no sense
// at the moment. Each returns the emitter's error.
var verbs = []func(t *rapid.T, e *responses.Emitter) error{
	func(t *rapid.T, e *responses.Emitter) error { return e.Begin() },
	func(t *rapid.T, e *responses.Emitter) error {
		return e.BeginMessage(rapid.SampledFrom([]responses.Phase{"", responses.PhaseCommentary,
			responses.PhaseFinalAnswer}).Draw(t, "phase"))
	},
	func(t *rapid.T, e *responses.Emitter) error { e.DefaultPhase(responses.PhaseFinalAnswer); return nil },
	func(t *rapid.T, e *responses.Emitter) error { return e.Text(someText(t)) },
	func(t *rapid.T, e *responses.Emitter) error { return e.Refusal(someText(t)) },
	func(t *rapid.T, e *responses.Emitter) error {
		e.Annotate(responses.Annotation{Type: "url_citation", URL: someText(t), Title: "t", StartIndex: 1})
		return nil
	},
	func(t *rapid.T, e *responses.Emitter) error { return e.BeginReasoning() },
	func(t *rapid.T, e *responses.Emitter) error { return e.Summary(someText(t)) },
	func(t *rapid.T, e *responses.Emitter) error { return e.ReasoningText(someText(t)) },
	func(t *rapid.T, e *responses.Emitter) error { return e.EndPart() },
	func(t *rapid.T, e *responses.Emitter) error { e.SetEncryptedReasoning(someText(t)); return nil },
	func(t *rapid.T, e *responses.Emitter) error {
		callID := rapid.SampledFrom([]string{"", "call_1", "call_2", "call_3", "call_4"}).Draw(t, "call id")
		return refused(e.BeginFunctionCall(callID, rapid.SampledFrom([]string{"f", "g_1", "a b"}).Draw(t, "name")))
	},
	func(t *rapid.T, e *responses.Emitter) error {
		err := e.Arguments(someText(t))
		if err != nil && err.Error() == "emit arguments: no function call is open" {
			return nil
		}
		return err
	},
	func(t *rapid.T, e *responses.Emitter) error { return e.EndItem() },
}

// enders end the stream.
var enders = []func(e *responses.Emitter) error{
	func(e *responses.Emitter) error { return e.Complete(usage, 5) },
	func(e *responses.Emitter) error { return e.Incomplete(responses.ReasonMaxRounds, usage) },
	func(e *responses.Emitter) error { return e.Fail(responses.Internal("broken", nil), usage) },
	func(e *responses.Emitter) error { return e.Cancel(nil, usage) },
}

// refused drops the error of a call that the emitter would not pass on.
func refused(err error) error {
	if r, ok := errors.AsType[*responses.Error](err); ok && r.Type == responses.TypeModelError {
		return nil
	}
	return err
}

func someText(t *rapid.T) string {
	return rapid.OneOf(
		rapid.SampledFrom([]string{"", "a", "<b>\n", "\"\\", "日本", "\x00\x1f\u2028", "\xff\xfe", "\xe6\x97", "\xa5"}),
		rapid.StringN(0, 20, 80),
	).Draw(t, "text")
}

// Any calls in any order, with a sink that may break at any event, emit the
// beginning of a legal stream. A stream that was ended is legal as a whole, and
// one that was cut anywhere can be ended by another process.
func TestEmitterMakesLegalStreamsOnly(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		status := rapid.SampledFrom([]responses.Status{responses.StatusInProgress, responses.StatusQueued}).Draw(rt,
			"status")
		rec := &recorder{failAt: rapid.SampledFrom([]int{-1, -1, -1, 3, 7, 15, 30}).Draw(rt, "fail at")}
		e, err := responses.NewEmitter(newResponse(t, status), rec.take)
		expect.NoError(rt, err)
		var last error
		for range rapid.IntRange(0, 40).Draw(rt, "verbs") {
			if last = rapid.SampledFrom(verbs).Draw(rt, "verb")(rt, e); last != nil {
				break
			}
		}
		if err := check(rec.lines, false); err != nil {
			rt.Fatalf("%v\n%s", err, rec.joined())
		}
		if last == nil {
			last = rapid.SampledFrom(enders).Draw(rt, "end")(e)
		}
		switch {
		case last == nil:
			if err := check(rec.lines, true); err != nil {
				rt.Fatalf("%v\n%s", err, rec.joined())
			}
			expect.NoError(rt, sameOutput(e.Response(), rec))
		case !errors.Is(last, errSink) || len(rec.lines) != rec.failAt:
			rt.Fatalf("the emitter gave up after %d events: %v", len(rec.lines), last)
		case e.Text("x") == nil || e.Complete(usage, 1) == nil || len(rec.lines) != rec.failAt:
			rt.Fatal("the emitter goes on after its sink broke")
		}
		cut := rapid.IntRange(1, len(rec.lines)).Draw(rt, "cut")
		if _, err := resume(t, rec.lines[:cut]); err != nil {
			rt.Fatalf("resumed after %d events: %v", cut, err)
		}
	})
}

// sameOutput compares the emitter's own response with the one it streamed.
func sameOutput(resp responses.Response, rec *recorder) error {
	final, err := responses.DecodeEvent(rec.lines[len(rec.lines)-1])
	if err != nil {
		return err
	}
	if len(final.Response.Output) != len(resp.Output) || final.Response.OutputText() != resp.OutputText() {
		return fmt.Errorf("the emitter's response has the text %q, the stream's %q", resp.OutputText(),
			final.Response.OutputText())
	}
	return nil
}
