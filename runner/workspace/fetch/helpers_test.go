package fetch

import (
	"testing"

	"go.uber.org/goleak"

	"holon/test/gittest"
)

func TestMain(m *testing.M) {
	gittest.Isolate()
	goleak.VerifyTestMain(m)
}
