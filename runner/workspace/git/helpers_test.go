package git

import (
	"errors"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/test/gittest"
)

func TestMain(m *testing.M) {
	gittest.Isolate()
	goleak.VerifyTestMain(m)
}

// wantCode fails unless err is an *Error with the code, and its message one line.
func wantCode(t testing.TB, err error, code string) {
	t.Helper()
	if failed, ok := errors.AsType[*Error](err); !ok || failed.Code != code {
		t.Fatalf("error %v (%T), want code %s", err, err, code)
	}
	if strings.ContainsRune(err.Error(), '\n') {
		t.Fatalf("the message %q has several lines, want one", err)
	}
}
