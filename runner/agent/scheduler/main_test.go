package scheduler_test

import (
	"cmp"
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// checksEnv is the number of random scripts that each property tries; of the fast tier, rapid tries a fifth of it. Each
// run tries other scripts.
const checksEnv, defaultChecks = "HOLON_SCHEDULER_CHECKS", "100"

func TestMain(m *testing.M) {
	if err := flag.Set("rapid.checks", cmp.Or(os.Getenv(checksEnv), defaultChecks)); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(2)
	}
	flag.Parse() // -rapid.checks on the command line wins
	goleak.VerifyTestMain(m)
}
