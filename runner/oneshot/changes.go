package oneshot

import (
	"fmt"

	"holon/internal/visible"

	"holon/runner/workspace"
)

// ExecutedFiles names, line by line, the files of a change that programs act on by
// themselves; nothing when there are none. Paths are made fit to be printed.
func ExecutedFiles(warnings []workspace.Warning) (lines []string) {
	for _, w := range warnings {
		if w.Code != workspace.WarnExecuted {
			continue
		}
		if lines == nil {
			lines = append(lines, "this change contains files that programs execute; read them first:")
		}
		lines = append(lines, fmt.Sprintf("  %s: %s", visible.Name(w.Path), w.Message))
	}
	return lines
}
