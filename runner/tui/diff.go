package tui

import (
	"fmt"
	"path"
	"strings"

	"holon/internal/visible"
	"holon/runner/control/wire"
	"holon/runner/review"
	"holon/state"
)

// executedFile is the code of the warning of a file that programs execute unasked.
const executedFile = "executed_file"

// changeOf is a diff for the screen, with the beginning of its patch.
func changeOf(d state.Diff, patch string) change {
	c := change{Tree: d.ResultTree, Patch: patch}
	for _, f := range d.Files {
		name := visible.Name(f.Path)
		if f.From != "" {
			name = visible.Name(f.From) + " → " + name
		}
		lines := fmt.Sprintf("+%d −%d", f.Added, f.Deleted)
		if f.Binary {
			lines = "binary"
		}
		c.Files = append(c.Files, fmt.Sprintf("%-8s %s  %s", f.Status, name, lines))
	}
	var notes []string
	for _, w := range d.Warnings {
		if w.Code == executedFile {
			c.Executed = append(c.Executed, visible.Name(w.Path)+": "+w.Message)
		} else {
			notes = append(notes, strings.TrimPrefix(visible.Name(w.Path)+": "+w.Message, ": "))
		}
	}
	c.Note = strings.Join(notes, "; ")
	if d.PatchBytes > wire.MaxPatch {
		c.Note = strings.TrimPrefix(c.Note+"; the patch goes on in "+d.Patch, "; ")
	}
	return c
}

// resultTrees name changes to the daemon.
func resultTrees(changes []change) (trees []string) {
	for _, c := range changes {
		trees = append(trees, c.Tree)
	}
	return trees
}

// applied says what was written.
func applied(dir string, written, deleted []string, warnings []state.Warning) string {
	if len(written)+len(deleted) == 0 {
		return "nothing to apply"
	}
	var lines []string
	for _, name := range written {
		lines = append(lines, "written "+visible.Name(path.Join(dir, name)))
	}
	for _, name := range deleted {
		lines = append(lines, "deleted "+visible.Name(path.Join(dir, name)))
	}
	for _, w := range warnings {
		lines = append(lines, visible.Name(w.Path)+": "+w.Message)
	}
	return strings.Join(lines, "\n")
}

// diffLines are the lines of changes with where they are.
func diffLines(changes []change) (lines []review.Line) {
	for _, c := range changes {
		lines = append(lines, review.Line{Text: c.Title, Kind: 'f'})
		for _, f := range c.Files {
			lines = append(lines, review.Line{Text: "  " + f, Kind: ' '})
		}
		for _, e := range c.Executed {
			lines = append(lines, review.Line{Text: "  executed by programs: " + e, Kind: '-'})
		}
		if c.Note != "" {
			lines = append(lines, review.Line{Text: "  " + c.Note, Kind: ' '})
		}
		lines = append(lines, review.Lines(c.Patch)...)
	}
	return lines
}
