// Package review has the comments of a person on the lines of a change, and makes the next message to its agent of
// them. The text of a patch is foreign: it is quoted, a line at most. The package does no I/O.
package review

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"holon/internal/visible"
)

// Line is a line of a diff.
type Line struct {
	Text string
	Kind byte   // '+', '-', '@', 'f' a file, ' ' others
	File string // that it is of
	Line int    // in the new file, of an added or unchanged line; else 0
}

// Comment is what a person says of a line of a change.
type Comment struct {
	File string `json:"file"`           // "" for the change as a whole
	Line int    `json:"line,omitempty"` // in the new file; 0 for the file as a whole
	Code string `json:"code,omitempty"` // the line of the diff
	Text string `json:"text"`
}

// Message makes the next message of comments on a change.
func Message(comments []Comment) string {
	var b strings.Builder
	b.WriteString("Comments on your change:\n")
	for _, c := range comments {
		where := cmp.Or(c.File, "the change")
		if c.Line > 0 {
			where = fmt.Sprintf("%s:%d", where, c.Line)
		}
		fmt.Fprintf(&b, "\n%s\n", where)
		if c.Code != "" {
			fmt.Fprintf(&b, "> %s\n\n", c.Code)
		}
		fmt.Fprintln(&b, c.Text)
	}
	return b.String()
}

// maxComments bounds the comments of one message.
const maxComments = 1000

// place is the beginning of a comment as compilers and linters write it: FILE:LINE: TEXT, FILE:LINE:COLUMN: TEXT, or
// FILE: TEXT.
var place = regexp.MustCompile(`^([^\s:][^:]*?)(?::(\d+))?(?::\d+)?: (.*)$`)

// Parse reads comments: a JSON array, or an object on each line, of Comment; else text, in which a line FILE:LINE: TEXT
// or FILE: TEXT begins a comment on a file of the patch, which the lines below it go on with. What is before the first
// one is of the change as a whole. Comments get the code of their line. The error names the comment at fault.
func Parse(data, patch string) ([]Comment, error) {
	lines := Lines(patch)
	files, ends := filesOf(lines), endsOf(lines)
	comments, err := parseJSON(data)
	if comments == nil && err == nil {
		comments = parseText(data, files)
	}
	switch {
	case err != nil:
		return nil, err
	case len(comments) == 0:
		return nil, errors.New("there is no comment")
	case len(comments) > maxComments:
		return nil, fmt.Errorf("there are %d comments, more than %d", len(comments), maxComments)
	}
	for i := range comments {
		err := comments[i].complete(lines, files)
		if end, known := ends[comments[i].File]; err == nil && known && comments[i].Line > end {
			err = fmt.Errorf("is on line %d of %s, which has %d", comments[i].Line, visible.Name(comments[i].File), end)
		}
		if err != nil {
			return nil, fmt.Errorf("comment %d %w", i+1, err)
		}
	}
	return comments, nil
}

// complete checks a comment on a patch with those lines and files, and gives it the code of its line.
func (c *Comment) complete(lines []Line, files []string) error {
	c.Text, c.File, c.Code = strings.TrimSpace(c.Text), strings.TrimPrefix(c.File, "./"), ""
	switch {
	case c.Text == "":
		return errors.New("has no text")
	case c.Line < 0 || c.Line > 0 && c.File == "":
		return fmt.Errorf("is on line %d of no file", c.Line)
	case c.File != "" && !slices.Contains(files, c.File):
		return fmt.Errorf("is on %s, which the change does not have; it has %s",
			visible.Name(c.File), visible.OneLine(strings.Join(files, ", "), 300))
	}
	onIt := func(l Line) bool { return c.Line > 0 && l.File == c.File && l.Line == c.Line }
	if at := slices.IndexFunc(lines, onIt); at >= 0 {
		c.Code = lines[at].Text
	}
	return nil
}

// filesOf are the names of the files that a patch changes, each once.
func filesOf(lines []Line) (files []string) {
	for _, l := range lines {
		if l.File != "" && !slices.Contains(files, l.File) {
			files = append(files, l.File)
		}
	}
	return files
}

// contextLines are those that git shows below a change, unless the file ends before.
const contextLines = 3

// endsOf are the numbers of lines of the files whose end a patch shows.
func endsOf(lines []Line) map[string]int {
	ends := map[string]int{}
	last, below, shown := 0, 0, false
	for i, l := range lines {
		switch {
		case l.Kind == 'f' || l.Kind == '@':
			last, below, shown = 0, 0, false
		case strings.HasPrefix(l.Text, `\`): // no newline at the end
			shown = true
		case l.Line > 0 && l.Kind == ' ':
			below++
		default:
			below = 0
		}
		last = max(last, l.Line)
		ended := i == len(lines)-1 || lines[i+1].Kind == 'f'
		if ended && l.Kind != 'f' && l.Kind != '@' && (shown || below < contextLines) {
			ends[l.File] = last
		}
	}
	return ends
}

// parseJSON reads comments in JSON; nil, and no error, where the text is none.
func parseJSON(data string) (comments []Comment, err error) {
	text := strings.TrimSpace(data)
	switch {
	case strings.HasPrefix(text, "["):
		comments = []Comment{}
		err = json.Unmarshal([]byte(text), &comments)
	case strings.HasPrefix(text, "{"):
		decoder := json.NewDecoder(strings.NewReader(text))
		for err == nil && decoder.More() && len(comments) <= maxComments {
			var c Comment
			err = decoder.Decode(&c)
			comments = append(comments, c)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the comments are not JSON with file, line and text: %w", err)
	}
	return comments, nil
}

func parseText(data string, files []string) (comments []Comment) {
	for text := range strings.Lines(data) {
		text = strings.TrimRight(text, "\r\n")
		m := place.FindStringSubmatch(text)
		known := m != nil && (m[2] != "" || slices.Contains(files, strings.TrimPrefix(m[1], "./")))
		switch {
		case known:
			line, _ := strconv.Atoi(m[2]) // one that is too large is of no line of the patch
			comments = append(comments, Comment{File: m[1], Line: line, Text: m[3]})
		case len(comments) == 0 && strings.TrimSpace(text) == "":
		case len(comments) == 0:
			comments = append(comments, Comment{Text: text})
		default:
			comments[len(comments)-1].Text += "\n" + text
		}
	}
	return comments
}

// Lines reads a patch of git, as far as it is one.
func Lines(patch string) (lines []Line) {
	var r patchReader
	for text := range strings.Lines(patch) {
		text = strings.TrimRight(text, "\n")
		read := r.head
		if strings.HasPrefix(text, "@@ ") {
			read = r.begin
		} else if r.left > 0 {
			read = r.hunk
		}
		if l, ok := read(text); ok {
			lines = append(lines, l)
		}
	}
	return lines
}

// patchReader is where the reading of a patch is: in a file, at a line of its new content, with lines of a hunk left,
// of both sides.
type patchReader struct {
	file     string
	at, left int
}

// head reads a line between hunks. Modes and ids are left out.
func (r *patchReader) head(text string) (Line, bool) {
	if to, ok := strings.CutPrefix(text, "+++ "); ok {
		if to != "/dev/null" {
			r.file = strings.TrimPrefix(to, "b/")
		}
		return Line{Text: r.file, Kind: 'f', File: r.file}, true
	}
	if strings.HasPrefix(text, "diff --git ") {
		r.file = ""
	} else if from, ok := strings.CutPrefix(text, "--- "); ok {
		r.file = strings.TrimPrefix(from, "a/")
	} else if strings.HasPrefix(text, `\`) || text == "" {
		return Line{Text: text, Kind: ' ', File: r.file}, true
	}
	return Line{}, false
}

// begin reads the head of a hunk.
func (r *patchReader) begin(text string) (Line, bool) {
	var from, old, count int
	r.at, r.left = 0, 0
	if _, err := fmt.Sscanf(counts(text), "-%d,%d +%d,%d", &from, &old, &r.at, &count); err == nil {
		r.left = old + count
	}
	return Line{Text: text, Kind: '@', File: r.file}, true
}

// hunk reads a line of a hunk.
func (r *patchReader) hunk(text string) (Line, bool) {
	l := Line{Text: text, Kind: ' ', File: r.file}
	switch {
	case strings.HasPrefix(text, "-"):
		l.Kind = '-'
		r.left--
	case strings.HasPrefix(text, "+"):
		l.Kind, l.Line = '+', r.at
		r.at, r.left = r.at+1, r.left-1
	case strings.HasPrefix(text, " "):
		l.Line = r.at
		r.at, r.left = r.at+1, r.left-2
	}
	return l, true
}

// counts writes out the counts that git leaves out of the head of a hunk: 1.
func counts(head string) string {
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
