package access_test

import (
	"strings"
	"testing"

	"holon/runner/access"
	"holon/test/expect"
)

// Paths of the host, and what is to be done on it, are for operators alone; all else is for everyone.
func TestReadable(t *testing.T) {
	t.Parallel()
	const instead = "ask the operator"
	app := access.Caller{Name: "app", Sessions: true}
	for _, text := range []string{"/home/ann/src/app is not there", "the result is checked out at /w/a",
		`open "/etc/x y": no such file`, "in (/tmp/x)", "dir=/tmp", "look:/tmp/x", "below ~/src",
		"a\n/b", "[/srv]", "'/srv'"} {
		message, hint := app.Readable(text, "x")
		if strings.Contains(message, "/") || hint != instead {
			t.Errorf("%q is shown as %q, %q", text, message, hint)
		}
		if _, hint := app.Readable("m", text); hint != instead {
			t.Errorf("the hint %q is shown as %q", text, hint)
		}
		message, hint = access.OfOperator("ops").Readable(text, text)
		expect.Equal(t, "an operator's", message+hint, text+text)
	}
	for _, hint := range []string{"run holon providers", "give it --workspace-root", "set HOLON_HOME",
		"make image (builds it), docker pull nope:none, or name another"} {
		message, got := app.Readable("m", hint)
		expect.Equal(t, hint, message+got, "m"+instead)
	}
	message, hint := app.Readable("m; docker pull x; ask again",
		"close one: POST /v1/holon/sessions/ID/close, or holon session close ID")
	_, other := app.Readable("m", "name a smaller image, or docker pull it")
	expect.Equal(t, "another way", other, "name a smaller image")
	expect.Equal(t, "without commands", message+" "+hint, "m; ask again close one: POST /v1/holon/sessions/ID/close")
	for _, text := range []string{"the patch conflicts with the current \"src/a.go\" and 2 more",
		"GET /v1/models lists them",
		"use holon/my-change", "either and/or", "letters, digits and - _ / ., such as x", "holon.workspace is no text",
		"n/a", "close one: POST /v1/holon/sessions/ID/close", "make images smaller; try again"} {
		message, hint := app.Readable(text, text)
		expect.Equal(t, "shown", message+hint, text+text)
	}
}
