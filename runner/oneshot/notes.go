package oneshot

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/hosttools"
)

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
