package oneshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/hosttools"
	"holon/runner/workspace"
	"holon/state"
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
	if used := Used(m); used != "" {
		fmt.Fprintf(&b, "\n## Models\n\n%s.\n", used)
	}
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
		by := ""
		if f.Earlier {
			by = ", by `" + r.manifest.ParentRunID + "`"
		}
		fmt.Fprintf(b, "- %s %s%s, %s%s\n", f.Status, pathSpan(f.Path), from, f.Changed(), by)
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

// Used says what the models of a run took and what that cost, "" for nothing: "12 in (3 cached), 4 out, cost 0.01".
func Used(m *state.Manifest) string {
	if m.Usage == nil || m.Usage.TotalTokens == 0 {
		return ""
	}
	text := TokensOf(m.Usage)
	if a := m.ModelUsage; a != nil && a.Requests > 0 {
		text += ", cost " + a.Spent().String()
	}
	return text
}

// TokensOf says how many tokens were read and written, with a mark before what is estimated.
func TokensOf(u *turns.Usage) string {
	mark := ""
	if u.Estimated {
		mark = state.Approximately
	}
	text := fmt.Sprintf("%s%d in", mark, u.InputTokens)
	if cached := u.InputTokenDetails.CachedTokens; cached > 0 {
		text += fmt.Sprintf(" (%d cached)", cached)
	}
	return text + fmt.Sprintf(", %s%d out", mark, u.OutputTokens)
}

// Spent says how much of its budget a run took, "" when it had none or asked no
// provider: "2 of 10 requests, 300 of 5000 tokens, 0.0014 of 0.01 spent".
func Spent(m *state.Manifest) string {
	a := m.ModelUsage
	if a == nil {
		return ""
	}
	var parts []string
	if most := a.Budget.MaxRequests; most > 0 {
		parts = append(parts, fmt.Sprintf("%d of %d requests", a.Requests, most))
	}
	if most := a.Budget.MaxTokens; most > 0 {
		parts = append(parts, fmt.Sprintf("%s%d of %d tokens", a.Mark(), a.Total, most))
	}
	if most := a.Budget.MaxCost; most > 0 {
		parts = append(parts, fmt.Sprintf("%s%s of %s spent", a.Mark(), a.Cost, most))
	}
	return strings.Join(parts, ", ")
}

// collectNotes puts what the agent noted into the manifest. Notes that can't be
// read are a warning: the run has its results all the same.
func (r *execution) collectNotes() {
	var err error
	if r.session != nil {
		err = r.session.CloseHostTools() // the container is gone, or about to go
	}
	notes, readErr := hosttools.ReadNotes(filepath.Join(r.run.Dir(), runner.NotesFile))
	if errors.Is(readErr, fs.ErrNotExist) {
		readErr = nil // the run did not come so far
	}
	r.manifest.Notes = notes
	if err = errors.Join(err, readErr); err != nil {
		r.manifest.Warnings = append(r.manifest.Warnings,
			visible.OneLine("the agent's notes may be incomplete: "+err.Error(), 300))
	}
}

// summarizeNotes is the part of the summary with the agent's notes.
func (r *execution) summarizeNotes(b *bytes.Buffer) {
	for i, note := range r.manifest.Notes {
		if i == 0 {
			fmt.Fprint(b, "\n## Notes of the agent\n")
		}
		fmt.Fprintf(b, "\n%s\n\n%s\n", proseSpan(note.Kind), fence(note.Text))
	}
}

// ExecutedFiles names the files of a change that programs act on by themselves, a line for each or for those of a
// directory; nothing when there are none. Paths are made fit to be printed.
func ExecutedFiles(warnings []workspace.Warning) (lines []string) {
	for i, g := range workspace.GroupExecuted(warnings) {
		if i == 0 {
			lines = append(lines, "this change contains files that programs execute; read them first:")
		}
		count := ""
		if g.Files > 1 {
			count = fmt.Sprintf("%d files ", g.Files)
		}
		lines = append(lines, fmt.Sprintf("  %s: %s%s", visible.Name(g.Pattern), count, g.Message))
	}
	return lines
}
