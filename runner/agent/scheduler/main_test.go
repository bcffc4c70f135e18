package scheduler_test

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// defaultChecks is how many scripts each property tries unless -rapid.checks
// says otherwise: about twenty seconds in all.
const defaultChecks = "40"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", defaultChecks); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(2)
	}
	flag.Parse() // what the command line says comes after the default
	goleak.VerifyTestMain(m)
}
