package agent

import (
	"bytes"
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"holon/responses/turns"
	"holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
)

// textsOf are the texts of the files that an agent keeps as memory, by their paths.
func textsOf(files []prompt.CuratedFile) map[string]string {
	texts := make(map[string]string, len(files))
	for _, f := range files {
		texts[f.Path] = f.Text
	}
	return texts
}

// patchesMemory reports whether a fact is of a patch of the agent that names one of these files.
func patchesMemory(ev turns.RuntimeEvent) bool {
	return ev.Type == turns.ToolResult && bytes.Contains(ev.Payload, []byte("memory/"))
}

// changedFiles are those of the agent's memory that changed since the last call, or since the recorder was made.
func (rec *recorder) changedFiles() (changed []scheduler.MemoryFile) {
	now := textsOf(rec.curated(rec.attempt.AgentID))
	for _, path := range view.MemoryFiles() {
		before, after := rec.files[path], now[path]
		if before != after {
			changed = append(changed, scheduler.MemoryFile{Path: path, Bytes: len(after),
				Diff: udiff.Unified("a/"+path, "b/"+path, lastLine(before), lastLine(after))})
		}
	}
	rec.files = now
	return changed
}

// lastLine is a text whose last line has an end, so that a diff does not tell of it.
func lastLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}
