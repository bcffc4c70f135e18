package endpoint

import (
	"strings"
	"testing"

	"holon/test/expect"
)

// The words of an error are found in every form that is known. Of others the beginning is shown.
func TestWordsOfErrors(t *testing.T) {
	for body, want := range map[string]string{
		`{"error":{"message":"m"}}`:                        "m",
		`{"error":"m"}`:                                    "m",
		`{"error":"Bad Request","message":"m"}`:            "m",
		`[{"error":{"code":400,"message":"m"}}]`:           "m",
		`{"detail":"m"}`:                                   "m",
		`{"detail":[{"loc":["body",0],"msg":"a"},"b"]}`:    "body.0: a; b",
		`{"errors":[{"message":"m"}]}`:                     "m",
		`{"message":{"error":{"message":"m"}}}`:            "m",
		`{"base_resp":{"status_code":9,"status_msg":"m"}}`: "m",
		`{"type":"about:blank","title":"t","detail":"m"}`:  "m",
		`{"response":{"error":{"message":"m"}}}`:           "m",
		`{"error":{"message":"outer","metadata":{"raw":"{\"error\":{\"message\":\"inner\"}}"}}}`: "outer: inner",
		`{"odd":1}`:                              `{"odd":1}`,
		`"m"`:                                    "m",
		`no JSON`:                                "no JSON",
		"<html><style>x</style><b>502</b>\n Bad": "502 Bad",
		strings.Repeat("x", 1000):                strings.Repeat("x", 300),
		"\x00\x01":                               "",
		`{}`:                                     "",
		"":                                       "",
	} {
		expect.Equal(t, body, DecodeFailure([]byte(body)).Message, want)
	}
	expect.Equal(t, "the status", DecodeFailure([]byte(`[{"error":{"code":429,"message":"m"}}]`)).status(), 429)
}
