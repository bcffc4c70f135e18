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
	files := filesOf(lines)
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
		c := &comments[i]
		c.Text = strings.TrimSpace(c.Text)
		c.File = strings.TrimPrefix(c.File, "./")
		switch {
		case c.Text == "":
			return nil, fmt.Errorf("comment %d has no text", i+1)
		case c.Line < 0 || c.Line > 0 && c.File == "":
			return nil, fmt.Errorf("comment %d is on line %d of no file", i+1, c.Line)
		case c.File != "" && !slices.Contains(files, c.File):
			return nil, fmt.Errorf("comment %d is on %s, which the change does not have; it has %s", i+1,
				visible.Name(c.File), visible.OneLine(strings.Join(files, ", "), 300))
		}
		c.Code = ""
		onIt := func(l Line) bool { return c.Line > 0 && l.File == c.File && l.Line == c.Line }
		if at := slices.IndexFunc(lines, onIt); at >= 0 {
			c.Code = lines[at].Text
		}
	}
	return comments, nil
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
	file, at, left := "", 0, 0
	for text := range strings.Lines(patch) {
		text = strings.TrimRight(text, "\n")
		l := Line{Text: text, Kind: ' ', File: file}
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
			l = Line{Text: file, Kind: 'f', File: file}
		case strings.HasPrefix(text, "@@ "):
			var from, old, count int
			at, left = 0, 0
			if _, err := fmt.Sscanf(hunk(text), "-%d,%d +%d,%d", &from, &old, &at, &count); err == nil {
				left = old + count
			}
			l.Kind = '@'
		case left > 0 && strings.HasPrefix(text, "-"):
			l.Kind = '-'
			left--
		case left > 0 && strings.HasPrefix(text, "+"):
			l.Kind, l.Line = '+', at
			at, left = at+1, left-1
		case left > 0 && strings.HasPrefix(text, " "):
			l.Line = at
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
