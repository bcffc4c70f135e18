package console

import (
	"cmp"
	"html/template"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holon/internal/visible"
)

// Bounds of a patch that is shown.
const (
	maxPatch     = 1 << 20 // bytes
	maxPatchLine = 2000    // bytes
)

// patchFile is a file of a patch.
type patchFile struct {
	Name  string
	Lines []patchLine
}

// patchLine is a line of a file's patch.
type patchLine struct {
	Kind     string // add, del, same, hunk, note
	Old, New int    // numbers of the line, 0: it is not there
	Text     template.HTML
	Plain    string
}

// Number is the number that a comment names: of the new file, or of the old one where the line is gone.
func (l patchLine) Number() int { return cmp.Or(l.New, l.Old) }

var hunkHead = regexp.MustCompile(`^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@`)

// parsePatch reads a patch in git's format. What it does not understand it shows as a note.
func parsePatch(patch string) (list []patchFile) {
	var file *patchFile
	inHunk, oldLine, newLine := false, 0, 0
	for line := range strings.Lines(patch) {
		line = strings.TrimSuffix(line, "\n")
		if name, ok := strings.CutPrefix(line, "diff --git "); ok {
			if _, after, found := strings.Cut(name, " b/"); found {
				name = after
			}
			list = append(list, patchFile{Name: visible.OneLine(name, 500)})
			file, inHunk = &list[len(list)-1], false
			continue
		}
		if file == nil || !inHunk && slices.ContainsFunc([]string{"index ", "--- ", "+++ "}, func(head string) bool {
			return strings.HasPrefix(line, head)
		}) {
			continue
		}
		one := patchLine{Kind: "note", Plain: visible.Clip(visible.Code(line), maxPatchLine)}
		if m := hunkHead.FindStringSubmatch(line); m != nil {
			oldLine, _ = strconv.Atoi(m[1])
			newLine, _ = strconv.Atoi(m[2])
			one.Kind, inHunk = "hunk", true
		} else if inHunk && line != "" {
			switch line[0] {
			case '+':
				one.Kind, one.New = "add", newLine
				newLine++
			case '-':
				one.Kind, one.Old = "del", oldLine
				oldLine++
			case ' ':
				one.Kind, one.Old, one.New = "same", oldLine, newLine
				oldLine, newLine = oldLine+1, newLine+1
			}
		}
		file.Lines = append(file.Lines, one)
	}
	for i := range list {
		list[i].colour()
	}
	return list
}

// colour colours the lines by the language of the file's name.
func (f *patchFile) colour() {
	var code strings.Builder
	for _, l := range f.Lines {
		text := l.Plain
		if l.Kind == "add" || l.Kind == "del" || l.Kind == "same" {
			text = text[1:]
		} else {
			text = ""
		}
		code.WriteString(strings.ReplaceAll(text, "\n", " ") + "\n")
	}
	lines := strings.Split(string(coloured(languageOf(f.Name), code.String())), "\n")
	for i := range f.Lines {
		l := &f.Lines[i]
		l.Text = template.HTML(template.HTMLEscapeString(l.Plain)) //nolint:gosec // it is escaped
		if l.Kind == "add" || l.Kind == "del" || l.Kind == "same" {
			l.Text = template.HTML(l.Plain[:1] + lines[i]) //nolint:gosec // the first byte is +, - or a space
		}
	}
}
