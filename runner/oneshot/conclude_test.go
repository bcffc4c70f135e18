package oneshot

import (
	"os/exec"
	"testing"

	"holon/test/expect"
)

// A shell takes the name of a branch that a warning shows for one word, whatever git allows in it.
func TestQuoteFrom(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"feature/x", "fix/für-kunde", "stash@{0}", "a;exit", "a$(exit)", "a`exit`",
		"a'b", `a"b`, "a&b", "a|b", "a>b", "a<b", "(a)", "#a", "a!b", "{a,b}", "HEAD@{1}"} {
		out, err := exec.Command("sh", "-c", "printf %s "+quoteFrom(name)).CombinedOutput()
		expect.NoError(t, err)
		expect.Equal(t, "the word", string(out), name)
	}
	expect.Equal(t, "a plain name", quoteFrom("feature/x"), "feature/x")
}
