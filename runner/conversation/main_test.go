package conversation

import (
	"os"
	"testing"

	"holon/test/gittest"
)

func TestMain(m *testing.M) {
	gittest.Isolate()
	os.Exit(m.Run())
}
