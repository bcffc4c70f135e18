package rules_test

import (
	"fmt"
	"testing"

	"holon/runner/agent/rules"
	"holon/test/expect"
)

// The files of a message are read from the lines that name them.
func TestSentFiles(t *testing.T) {
	text := "look [file] agent_home/no (1 B)\n\n" + rules.SentFile("inbox/a/b (1).txt", 2048) + "\n\n" +
		rules.SentFile("inbox/c/d", 1) + "\n[file] agent_home/e"
	expect.Equal(t, "files", fmt.Sprintf("%q", rules.SentFiles(text)), `["inbox/a/b (1).txt" "inbox/c/d"]`)
}
