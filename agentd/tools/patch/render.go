package patch

import (
	"encoding/json"
	"fmt"
	"strings"

	"holon/agentd/tools"
)

// maxShown is how many files the receipt names.
const maxShown = 50

// line is a file in the receipt, in git's letters.
func (f changedFile) line() string {
	if f.Action == actionMove {
		return fmt.Sprintf("R %s -> %s", visible(f.FromPath), visible(f.Path))
	}
	return strings.ToUpper(string(f.Action[:1])) + " " + visible(f.Path)
}

// Family is the results of ApplyPatch. It implements the family of package tools.
type Family struct{}

func (Family) Owns(canonical tools.Result) bool { return canonical.ToolName == name }

func (Family) Render(canonical tools.Result, _ tools.RenderPolicy) string {
	var r result
	if err := json.Unmarshal(canonical.Result, &r); err != nil {
		return canonical.SummaryText
	}
	var b strings.Builder
	b.WriteString(r.SummaryText)
	shown := min(len(r.ChangedFiles), maxShown)
	for _, f := range r.ChangedFiles[:shown] {
		if f.Action != "" {
			b.WriteString("\n" + f.line())
		}
	}
	if more := r.ChangedFileCount - shown; more > 0 {
		fmt.Fprintf(&b, "\n... and %d more", more)
	}
	for i, d := range r.Diagnostics {
		if i == 0 {
			b.WriteString("\nTolerated:")
		}
		if i == maxShown/2 {
			fmt.Fprintf(&b, "\n... and %d more", len(r.Diagnostics)-i)
			break
		}
		b.WriteString("\n- ")
		if d.Path != "" {
			b.WriteString(visible(d.Path) + ": ")
		}
		b.WriteString(d.Message)
	}
	return b.String()
}

func (Family) Truncated(canonical tools.Result) bool {
	var r result
	_ = json.Unmarshal(canonical.Result, &r) // another shape has no flag
	return r.Truncated || len(r.ChangedFiles) > maxShown || len(r.Diagnostics) > maxShown/2
}
