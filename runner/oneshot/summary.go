package oneshot

import (
	"bytes"
	"fmt"
	"strings"

	"holon/internal/visible"
)

// Bounds of summary.md: of one text of others, in bytes, and of the files listed.
const (
	maxQuoted = 64 << 10
	maxListed = 1000
)

// summary is summary.md: what a person wants to know of a run first. Text of others
// stands in fences and code spans that it cannot close, so that every heading and
// all other markup is ours.
func (r *execution) summary() []byte {
	m := r.manifest
	var b bytes.Buffer
	title := m.RunID
	if m.Name != "" {
		title = nameSpan(m.Name)
	}
	fmt.Fprintf(&b, "# Run %s: %s\n\n", title, m.Outcome)
	fmt.Fprintf(&b, "## Task\n\n%s\n", fence(r.ask.Prompt()))
	if m.Error != nil {
		fmt.Fprintf(&b, "\n## Error\n\n%s (%s)\n", proseSpan(m.Error.Message), proseSpan(m.Error.Code))
	}
	if answer := strings.TrimSpace(r.turn.Answer); answer != "" {
		fmt.Fprintf(&b, "\n## Answer\n\n%s\n", fence(answer))
		if len(answer) > maxQuoted {
			fmt.Fprintf(&b, "\nThe rest of it is in `events.ndjson`.\n")
		}
	}
	r.summarizeNotes(&b)
	r.summarizeChanges(&b)
	r.summarizeEgress(&b)
	if spent := Spent(m); spent != "" {
		fmt.Fprintf(&b, "\n## Budget\n\nThe run took %s.\n", spent)
	}
	for i, w := range m.Warnings {
		if i == 0 {
			fmt.Fprint(&b, "\n## Warnings\n\n")
		}
		fmt.Fprintf(&b, "- %s\n", proseSpan(w))
	}
	return b.Bytes()
}

// summarizeChanges is the part of the summary with the changed files.
func (r *execution) summarizeChanges(b *bytes.Buffer) {
	fmt.Fprint(b, "\n## Changes\n\n")
	switch {
	case r.diff == nil:
		fmt.Fprintln(b, "None were collected.")
		return
	case len(r.diff.Files) == 0:
		fmt.Fprintln(b, "No file was changed.")
		return
	}
	for i, f := range r.diff.Files {
		if i == maxListed {
			fmt.Fprintf(b, "- … and %d more, see `manifest.json`\n", len(r.diff.Files)-i)
			break
		}
		from := ""
		if f.From != "" {
			from = fmt.Sprintf(" (was %s)", pathSpan(f.From))
		}
		fmt.Fprintf(b, "- %s %s%s, +%d −%d\n", f.Status, pathSpan(f.Path), from, f.Added, f.Deleted)
	}
	for i, line := range ExecutedFiles(r.diff.Warnings) {
		if i == 0 {
			fmt.Fprintf(b, "\n%s\n\n", line)
			continue
		}
		fmt.Fprintf(b, "- %s\n", proseSpan(strings.TrimSpace(line)))
	}
	fmt.Fprintf(b, "\nApply them with `holon apply %s`.\n", r.manifest.RunID)
}

// fence makes text a code block that ends where we end it.
func fence(text string) string {
	text = visible.Clip(strings.TrimSpace(visible.Text(text)), maxQuoted)
	ticks := strings.Repeat("`", max(3, longestRun(text)+1))
	return ticks + "\n" + text + "\n" + ticks
}

// nameSpan is a name that somebody gave, as it is where it cannot be anything else.
func nameSpan(s string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-."
	if strings.Trim(s, plain) == "" {
		return s
	}
	return pathSpan(s)
}

// pathSpan is a name of any bytes in a code span.
func pathSpan(s string) string { return span(visible.Clip(visible.Name(s), 5000)) }

// proseSpan is a line with words of others in it: a code span.
func proseSpan(s string) string { return span(visible.OneLine(s, 2000)) }

// span makes a line a code span that ends where we end it.
func span(line string) string {
	ticks := strings.Repeat("`", longestRun(line)+1)
	if line == "" || strings.HasPrefix(line, "`") || strings.HasSuffix(line, "`") {
		line = " " + line + " "
	}
	return ticks + line + ticks
}

// longestRun is the length of the longest run of backticks in text.
func longestRun(text string) (longest int) {
	for run := range strings.FieldsFuncSeq(text, func(r rune) bool { return r != '`' }) {
		longest = max(longest, len(run))
	}
	return longest
}
