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
			t.Errorf("%s is %d %s, known: %v (%v)", code, status, text, known, err)
		}
		want := state.Error{Code: code, Message: "m", Param: "p", Hint: "h"}
		if is := wire.DecodeFailure(status, text); *is != want {
			t.Errorf("%s is on the other side %+v, want %+v", code, *is, want)
		}
	}
}

// An error whose code is not in the table is internal, and clients see nothing of it.
func TestUnknownErrorsAreInternal(t *testing.T) {
	for _, err := range []error{errors.New("secret"), &state.Error{Code: "unheard_of", Message: "secret"},
		context.Canceled} {
		f, status, known := wire.Explain(err)
		if known || status != 500 || f.Error.Code != wire.CodeInternal || f.Error.Message == "secret" {
			t.Errorf("%v is known: %v, and %d %+v", err, known, status, f.Error)
		}
	}
	if f, status, known := wire.Explain(context.DeadlineExceeded); !known || status != 408 || !f.Error.Retryable {
		t.Errorf("a deadline is known: %v, and %d %+v, want 408 and retryable", known, status, f.Error)
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
		scheduler.CodeQueueFull, scheduler.CodeNoRun, scheduler.CodeRunMismatch, scheduler.CodeNotQueued, scheduler.CodeDefaultAgent,
		scheduler.CodeAgentBusy, scheduler.CodeAgentArchived,
		scheduler.CodeTokenUnknown, scheduler.CodeInvalidTimer, scheduler.CodeInvalidAgent,
		ledger.CodeNotFound, ledger.CodeConflict, ledger.CodeExists, ledger.CodeTooLarge, ledger.CodeLocked,
		ledger.CodeLedgerFull, ledger.CodeLedgerEnded, ledger.CodeLedgerAway,
	} {
		if wire.Status(code) == 500 {
			t.Errorf("%s has no status", code)
		}
	}
}

func TestDecode(t *testing.T) {
	var e wire.Enqueue
	if err := wire.Decode([]byte(` {"agentId":"a","correlation_id":"c","origin":{"kind":"channel","channelId":"x",`+
		`"senderId":"y"},"metadata":{"keepMe":{"asIs":1}}} `), &e); err != nil {
		t.Fatal(err)
	}
	if got, want := fmt.Sprint(e.AgentID, e.CorrelationID, e.Origin.ChannelID, e.Origin.SenderID, string(e.Metadata)),
		`acxy{"keepMe":{"asIs":1}}`; got != want {
		t.Errorf("read is %s, want %s", got, want)
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
		if err := wire.Decode([]byte(body), &e); !state.IsCode(err, code) {
			t.Errorf("%s: %v, want %s", body, err, code)
		}
	}
}

// A key that is null is refused by its name, like a value of a wrong type, unless it takes any JSON.
func TestDecodeNull(t *testing.T) {
	refuses := func(out any, body, param string) {
		t.Helper()
		err := wire.Decode([]byte(body), out)
		e, ok := errors.AsType[*state.Error](err)
		if param == "" && err == nil || ok && param != "" && e.Code == wire.CodeInvalidValue && e.Param == param {
			return
		}
		t.Errorf("%s: %v, want %q refused", body, err, param)
	}
	refuses(new(wire.Command), `{"agent_id":null}`, "agent_id")
	refuses(new(wire.Command), `{"agentId":null}`, "agentId")
	refuses(new(wire.Command), `{"through":null}`, "through")
	refuses(new(wire.Archive), `{"force":null}`, "force")
	refuses(new(wire.Enqueue), `{"text":null}`, "text")
	refuses(new(wire.Enqueue), `{"origin":null}`, "origin")
	refuses(new(wire.Enqueue), `{"origin":{"kind":"channel","channelId":null}}`, "origin.channelId")
	refuses(new(wire.Enqueue), `{"json":null}`, "")
	refuses(new(wire.Enqueue), `{"body":{"type":"json","value":null}}`, "")
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
		if err := wire.Decode(body, &e); err != nil {
			known, ok := errors.AsType[*state.Error](err)
			if !ok || wire.Status(known.Code) != 400 || known.Hint == "" {
				t.Fatalf("%q is refused with %#v, want a code of 400 and a hint", body, err)
			}
			return
		}
		once, err := json.Marshal(e)
		if err != nil {
			t.Fatalf("%q can't be written: %v", body, err)
		}
		var again wire.Enqueue
		if err := wire.Decode(once, &again); err != nil {
			t.Fatalf("%q was written as %q and can't be read: %v", body, once, err)
		}
		if twice, err := json.Marshal(again); err != nil || string(twice) != string(once) {
			t.Fatalf("%q, then %q (%v)", once, twice, err)
		}
	})
}
