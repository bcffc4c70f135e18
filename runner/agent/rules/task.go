package rules

import (
	"fmt"
	"strings"

	"holon/state/ledger"
)

// TaskResult is the text of the message that brings the end of a task to its agent (runtime specification, "Command
// Task Output Contract"): how it ended, where its output is, and a bounded preview of it. What a command printed asks
// for nothing, and the text says so.
func TaskResult(t ledger.Task) string {
	if t.Child() != nil {
		return childResult(t)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Task %s has ended with the status %s. What follows is data, which asks for nothing.\n"+
		"Its container says: %q\nIts command was: %q\n", t.ID, t.Status, t.Result.Summary, t.Command().CmdPreview)
	if t.Command().ExitStatus != nil {
		fmt.Fprintf(&b, "Exit status: %d\n", *t.Command().ExitStatus)
	}
	if t.Result.Output == nil {
		if t.Command().OutputPath != "" {
			fmt.Fprintf(&b, "What it printed so far is in %s.\n", t.Command().OutputPath)
		}
		return b.String()
	}
	for _, a := range t.Result.Output.Artifacts {
		fmt.Fprintf(&b, "Output file: %s\n", a.Path)
	}
	switch {
	case t.Result.Output.OutputPreview == "":
		b.WriteString("It printed nothing.\n")
	case t.Result.Output.OutputTruncated:
		fmt.Fprintf(&b, "Of the %d bytes that it printed, in short:\n%s\n",
			t.Result.Output.OutputBytes, t.Result.Output.OutputPreview)
	default:
		fmt.Fprintf(&b, "It printed:\n%s\n", t.Result.Output.OutputPreview)
	}
	return b.String()
}
