package wire_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"holon/runner/agent/scheduler"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// An error is on the other side what it was on this one.
func TestErrorsCrossTheWire(t *testing.T) {
	for _, code := range wire.Codes() {
		was := &state.Error{Code: code, Message: "m", Param: "p", Hint: "h", Err: errors.New("cause")}
		f, status, known := wire.Explain(fmt.Errorf("doing: %w", was))
		text, err := json.Marshal(f)
		if err != nil || !known || f.OK || status != wire.Status(code) || status < 400 ||
			f.Error.Retryable != wire.Retryable(code) {
			t.Errorf("%s: %s, %d, %v", code, text, status, err)
		}
		is := wire.DecodeFailure(status, text)
		if is.Code != code || is.Message != "m" || is.Param != "p" || is.Hint != "h" || is.Err != nil {
			t.Errorf("%s became %#v", code, is)
		}
	}
}

// An error whose code is not in the table is internal, and clients see nothing of it.
func TestUnknownErrorsAreInternal(t *testing.T) {
	for _, err := range []error{errors.New("secret"), &state.Error{Code: "unheard_of", Message: "secret"},
		context.Canceled} {
		f, status, known := wire.Explain(err)
		if known || status != 500 || f.Error.Code != wire.CodeInternal || f.Error.Message == "secret" {
			t.Errorf("%v: %+v, %d", err, f, status)
		}
	}
	if f, status, known := wire.Explain(context.DeadlineExceeded); !known || status != 408 || !f.Error.Retryable {
		t.Errorf("%+v, %d", f, status)
	}
	for _, body := range []string{"", "null", "{}", `{"error":{"code":"x"}}`, "<html>"} {
		if e := wire.DecodeFailure(502, []byte(body)); e.Code != wire.CodeBadAnswer || e.Hint == "" {
			t.Errorf("%q: %#v", body, e)
		}
	}
}

// The codes of scheduler and ledger have a status here.
func TestTheTableKnowsTheCodesOfOthers(t *testing.T) {
	for _, code := range []state.Code{
		scheduler.CodeAgentStopped, scheduler.CodeAgentPrivate, scheduler.CodeInvalidMessage, scheduler.CodeKeyConflict,
		scheduler.CodeQueueFull, scheduler.CodeNoRun, scheduler.CodeRunMismatch,
		scheduler.CodeTokenUnknown, scheduler.CodeInvalidTimer, scheduler.CodeInvalidAgent,
		ledger.CodeNotFound, ledger.CodeConflict, ledger.CodeExists, ledger.CodeTooLarge, ledger.CodeLocked,
		ledger.CodeLedgerFull, ledger.CodeLedgerEnded,
	} {
		if wire.Status(code) == 500 {
			t.Errorf("%s has no status", code)
		}
	}
}

func TestDecode(t *testing.T) {
	var e wire.Enqueue
	if err := wire.Decode([]byte(` {"agentId":"a","correlation_id":"c","origin":{"kind":"channel","channelId":"x","senderId":"y"},"metadata":{"keepMe":{"asIs":1}}} `), &e, "origin"); err != nil {
		t.Fatal(err)
	}
	if e.AgentID != "a" || e.CorrelationID != "c" || e.Origin.ChannelID != "x" || e.Origin.SenderID != "y" ||
		string(e.Metadata) != `{"keepMe":{"asIs":1}}` {
		t.Errorf("%+v", e)
	}
	for body, code := range map[string]state.Code{
		`{"origin":{"channelId":"a","channel_id":"b"}}`: wire.CodeInvalidValue,
		`{"origin":{"nope":"a"}}`:                       wire.CodeUnknownField,
		`{"text":{}}`:                                   wire.CodeInvalidValue,
		`{"text":"a"`:                                   wire.CodeInvalidJSON,
		`{"text":"a"} x`:                                wire.CodeInvalidJSON,
		`null`:                                          wire.CodeInvalidJSON,
		` `:                                             wire.CodeInvalidJSON,
		"{\"text\":\"\xc3\x28\"}":                       wire.CodeInvalidJSON,
		`{"":1}`:                                        wire.CodeUnknownField,
	} {
		var e wire.Enqueue
		if err := wire.Decode([]byte(body), &e, "origin"); !state.IsCode(err, code) {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
}

// Every input is either refused with a code of the table or means the same when it is written and read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{`{"text":"x","agentId":"a"}`,
		`{"origin":{"kind":"channel","channelId":"c"},"json":[1,{"a":null}]}`, `{"trust":1}`,
		`{"body":{"type":"json","value":{}}}`, `{"a":{"a":{"a":[]}}}`, `{"text":"\ud800"}`, `[`,
		`{"TEXT":"x","text":"y"}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var e wire.Enqueue
		if err := wire.Decode(body, &e, "origin", "body"); err != nil {
			known, ok := errors.AsType[*state.Error](err)
			if !ok || wire.Status(known.Code) != 400 || known.Hint == "" {
				t.Fatalf("%q: %#v", body, err)
			}
			return
		}
		once, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%q can't be written: %v", body, err)
		}
		var again wire.Enqueue
		if err := wire.Decode(once, &again, "origin", "body"); err != nil {
			t.Fatalf("%q was written as %q and can't be read: %v", body, once, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(once) {
			t.Fatalf("%q, then %q (%v)", once, twice, err)
		}
	})
}
