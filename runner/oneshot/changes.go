package oneshot

import (
	"fmt"

	"holon/internal/visible"

	"holon/runner/workspace"
)

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
