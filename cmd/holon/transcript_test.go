package main

import (
	"strings"
	"testing"

	"holon/state/ledger"
)

// What an agent says is Markdown on a terminal, below a line of its own, and as it is elsewhere.
func TestTranscriptMarkdown(t *testing.T) {
	entry := ledger.TranscriptEntry{Kind: ledger.TranscriptRound, Data: []byte(`{"text":"- **b** [a](u)"}`)}
	for tty, want := range map[bool]string{true: "\n  • b a (u)\n", false: "\n  - **b** [a](u)\n"} {
		var out strings.Builder
		s := atWidth(40)
		s.Out, s.OutTTY = &out, tty
		if err := (&remote{streams: s}).showEntry(entry); err != nil || !strings.HasSuffix(out.String(), want) {
			t.Errorf("terminal %v: %q (%v), want the end %q", tty, out.String(), err, want)
		}
	}
}
