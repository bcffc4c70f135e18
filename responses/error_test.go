package responses_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/responses"
	"holon/test/expect"
)

func TestErrorStatus(t *testing.T) {
	for _, tt := range []struct {
		typ  responses.ErrorType
		code string
		want int
	}{
		{responses.TypeInvalidRequest, responses.CodeInvalidValue, 400},
		{responses.TypeNotFound, responses.CodePreviousNotFound, 404},
		{responses.TypeTooManyRequests, responses.CodeQueueFull, 429},
		{responses.TypeModelError, responses.CodeModelError, 500},
		{responses.TypeServerError, responses.CodeServerError, 500},
		{responses.TypeInvalidRequest, responses.CodeTurnConflict, 409},
		{responses.TypeInvalidRequest, responses.CodeRequestTooLarge, 413},
		{responses.TypeInvalidRequest, responses.CodeUnsupportedMediaType, 415},
		{responses.TypeInvalidRequest, responses.CodeMethodNotAllowed, 405},
		{responses.TypeInvalidRequest, responses.CodeUnauthorized, 401},
		{responses.TypeServerError, responses.CodeDraining, 503},
		{responses.TypeServerError, responses.CodeElsewhere, 503},
		{responses.TypeServerError, responses.CodeNotReady, 503},
		{responses.TypeServerError, responses.CodeDiskFull, 507},
		{"", "", 500},
	} {
		e := &responses.Error{Type: tt.typ, Code: tt.code}
		if got := e.Status(); got != tt.want {
			t.Errorf("%s/%s has the status %d, want %d", tt.typ, tt.code, got, tt.want)
		}
	}
}

func TestEnvelope(t *testing.T) {
	e := &responses.Error{Type: responses.TypeNotFound, Code: responses.CodeModelNotFound, Message: "no <model>",
		Hint: "use another", Cause: io.EOF}
	const want = `{"error":{"message":"no <model>; use another","type":"not_found","param":"",` +
		`"code":"model_not_found","hint":"use another"}}`
	if got := string(e.Envelope()); got != want {
		t.Errorf("envelope is\n%s, want\n%s", got, want)
	}
	back := responses.DecodeEnvelope(404, e.Envelope())
	e.Cause = nil
	if diff := cmp.Diff(e, back); diff != "" {
		t.Errorf("round trip (-want +got):\n%s", diff)
	}
	expect.Equal(t, "text", back.Error(), "no <model>; use another")
}

func TestDecodeEnvelopeOfOthers(t *testing.T) {
	for _, tt := range []struct {
		status int
		body   string
		typ    responses.ErrorType
		says   string
	}{
		{400, `{"error":{"message":"m","type":"invalid_request_error","param":null,"code":null}}`,
			responses.TypeInvalidRequest, "m"},
		{404, `{"error":{"message":"m","type":"?"}}`, responses.TypeNotFound, "m"},
		{429, `{"error":{"message":"m"}}`, responses.TypeTooManyRequests, "m"},
		{503, `{"error":{"message":"m"}}`, responses.TypeServerError, "m"},
		{502, `<html>`, responses.TypeServerError, "the server answered Bad Gateway without an error envelope"},
		{500, ``, responses.TypeServerError, "the server answered Internal Server Error without an error envelope"},
		{500, `{"error":"text"}`, responses.TypeServerError,
			"the server answered Internal Server Error without an error envelope"},
		{500, `{"error":null}`, responses.TypeServerError,
			"the server answered Internal Server Error without an error envelope"},
		{500, `{"error":{"message":""}}`, responses.TypeServerError,
			"the server answered Internal Server Error without an error envelope"},
	} {
		e := responses.DecodeEnvelope(tt.status, []byte(tt.body))
		if e.Type != tt.typ || e.Error() != tt.says {
			t.Errorf("%d %s gave %s: %s", tt.status, tt.body, e.Type, e)
		}
	}
}

func TestAsError(t *testing.T) {
	if responses.AsError(nil) != nil {
		t.Error("AsError(nil) is not nil")
	}
	e := responses.Invalid("p", "c", "m")
	if got := responses.AsError(fmt.Errorf("outer: %w", e)); got != e {
		t.Errorf("the error within was not found: %v", got)
	}
	secret := errors.New("open /secret/path")
	got := responses.AsError(secret)
	var m map[string]map[string]string
	expect.NoError(t, json.Unmarshal(got.Envelope(), &m))
	if got.Code != responses.CodeServerError || !errors.Is(got, secret) ||
		m["error"]["message"] != "internal error; the server's log has the details" {
		t.Errorf("another error becomes %+v: %v", got, m)
	}
}
