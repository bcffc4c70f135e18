package tui

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"holon/internal/visible"
	"holon/state"
)

const (
	maxPatch     = 4 << 20          // bytes of a patch that are read
	executedFile = "executed_file"  // code of the warning of a file that programs execute unasked
	codeExecuted = "executed_files" // code with which applying such is refused
)

// changeOf is a diff for the screen. Its patch is a file of the daemon's host.
func changeOf(d state.Diff) change {
	c := change{Tree: d.ResultTree}
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
	if d.Patch == "" {
		return c
	}
	patch, err := os.Open(d.Patch)
	if err != nil {
		c.Note = strings.TrimPrefix(c.Note+"; the patch is on the daemon's host: "+d.Patch, "; ")
		return c
	}
	defer patch.Close()
	data, err := io.ReadAll(io.LimitReader(patch, maxPatch))
	if err != nil {
		c.Note = strings.TrimPrefix(c.Note+"; "+err.Error(), "; ")
	}
	c.Patch = string(data)
	if d.PatchBytes > maxPatch {
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

// diffLine is a line of a diff on screen.
type diffLine struct {
	text string
	kind byte   // '+', '-', '@', 'f' a file, ' ' others
	file string // that it is of
	line int    // in the new file, of an added or unchanged line; else 0
}

// diffLines are the lines of changes with where they are.
func diffLines(changes []change) (lines []diffLine) {
	for _, c := range changes {
		lines = append(lines, diffLine{text: c.Title, kind: 'f'})
		for _, f := range c.Files {
			lines = append(lines, diffLine{text: "  " + f, kind: ' '})
		}
		for _, e := range c.Executed {
			lines = append(lines, diffLine{text: "  executed by programs: " + e, kind: '-'})
		}
		if c.Note != "" {
			lines = append(lines, diffLine{text: "  " + c.Note, kind: ' '})
		}
		lines = append(lines, patchLines(c.Patch)...)
	}
	return lines
}

// patchLines reads a patch of git, as far as it is one.
func patchLines(patch string) (lines []diffLine) {
	file, at, left := "", 0, 0
	for text := range strings.Lines(patch) {
		text = strings.TrimRight(text, "\n")
		l := diffLine{text: text, kind: ' ', file: file}
		switch {
		case left <= 0 && strings.HasPrefix(text, "diff --git "):
			file = ""
			continue
		case left <= 0 && strings.HasPrefix(text, "--- "):
			file = strings.TrimPrefix(strings.TrimPrefix(text, "--- "), "a/")
			continue
		case left <= 0 && strings.HasPrefix(text, "+++ "):
			if to := strings.TrimPrefix(text, "+++ "); to != "/dev/null" {
				file = strings.TrimPrefix(to, "b/")
			}
			l = diffLine{text: file, kind: 'f', file: file}
		case strings.HasPrefix(text, "@@ "):
			var from, old, count int
			at, left = 0, 0
			if _, err := fmt.Sscanf(hunk(text), "-%d,%d +%d,%d", &from, &old, &at, &count); err == nil {
				left = old + count
			}
			l.kind = '@'
		case left > 0 && strings.HasPrefix(text, "-"):
			l.kind = '-'
			left--
		case left > 0 && strings.HasPrefix(text, "+"):
			l.kind, l.line = '+', at
			at, left = at+1, left-1
		case left > 0 && strings.HasPrefix(text, " "):
			l.line = at
			at, left = at+1, left-2
		case left <= 0 && !strings.HasPrefix(text, `\`) && text != "":
			continue // modes and ids
		}
		lines = append(lines, l)
	}
	return lines
}

// hunk writes out the counts that git leaves out of the head of a hunk: 1.
func hunk(head string) string {
	fields := strings.Fields(head)
	if len(fields) < 3 {
		return ""
	}
	for i, f := range fields[1:3] {
		if !strings.Contains(f, ",") {
			fields[i+1] = f + ",1"
		}
	}
	return fields[1] + " " + fields[2]
}

// comment is what a person says of a line of a diff.
type comment struct {
	file string
	line int
	code string
	text string
}

// message makes the next message of comments on a diff.
func message(comments []comment) string {
	var b strings.Builder
	b.WriteString("Comments on your change:\n")
	for _, c := range comments {
		where := cmp.Or(c.file, "the change")
		if c.line > 0 {
			where = fmt.Sprintf("%s:%d", where, c.line)
		}
		fmt.Fprintf(&b, "\n%s\n> %s\n%s\n", where, c.code, c.text)
	}
	return b.String()
}
