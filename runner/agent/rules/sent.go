package rules

import (
	"fmt"
	"strings"

	"holon/internal/visible"
)

// sentFile begins the line of a message that names a file which came with it.
const sentFile = "[file] agent_home/"

// SentFile is the line of a message that names a file which came with it, by its path in the agent's home.
func SentFile(at string, bytes int64) string {
	return fmt.Sprintf("%s%s (%s)", sentFile, at, visible.Size(bytes))
}

// SentFiles are the paths of the files that a message names.
func SentFiles(text string) (list []string) {
	for line := range strings.Lines(text) {
		at, found := strings.CutPrefix(line, sentFile)
		if end := strings.LastIndex(at, " ("); found && end > 0 {
			list = append(list, at[:end])
		}
	}
	return list
}
