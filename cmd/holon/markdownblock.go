package main

import (
	"regexp"
	"strings"
)

// link matches links and images, `[text](url "title")`, whose text may hold an image or brackets, and `<url>`.
const (
	link      = `!?\[(?:[^\[\]]|` + plainLink + `|\[[^\[\]]*\])*\]` + linkURL + `|<[a-z]+://[^<>\s]+>`
	plainLink = `!\[[^\[\]]*\]` + linkURL
	linkURL   = `\([^()\s]*(?:\([^()\s]*\)[^()\s]*)*(?:\s+"[^"]*")?\)`
)

// openLink matches the end of a line that more text may make a link.
var openLink = regexp.MustCompile(`\[[^\[\]]*(?:\]{1,2}(?:\([^()]*(?:\([^()]*\)?[^()]*)?)?)?$`)

// linkSpans shows a link as its text with the address behind it, which is what a person has to see to judge it.
func linkSpans(marked string) []span {
	if marked[0] == '<' {
		return []span{{strings.Trim(marked, "<>"), ""}}
	}
	at := strings.LastIndex(marked, "](")
	text := strings.TrimPrefix(strings.TrimPrefix(marked[:at], "!"), "[")
	url, _, _ := strings.Cut(strings.TrimSuffix(marked[at+2:], ")"), " ")
	switch {
	case url == "":
		return spans(text)
	case text == "" || text == url:
		return []span{{url, ""}}
	}
	return append(spans(text), span{" (" + url + ")", ""})
}

var (
	tableLine  = regexp.MustCompile(`^\s*\|`)
	tableRule  = regexp.MustCompile(`^\s*\|[\s|:-]*-[\s|:-]*$`)
	tableCells = regexp.MustCompile(`(?:\\.|[^|\\])+|\|`)
)

// inTable reports whether a line belongs to a table.
func (m *markdown) inTable(line string) bool { return !m.inCode && tableLine.MatchString(line) }

// endTable returns the rows of the table whose lines were gathered, none where there are none: as columns, which are
// wrapped where they are too wide together. Lines without a rule below the first one are no table.
func (m *markdown) endTable() (rows []string) {
	lines := m.table
	m.table = nil
	if len(lines) < 2 || !tableRule.MatchString(lines[1]) {
		for _, line := range lines {
			rows = append(rows, m.wrap(spans(line), "", "")...)
		}
		return rows
	}
	var out strings.Builder
	t := &table{streams: Streams{Out: &out, OutTTY: true, Width: m.width}}
	for i, line := range lines {
		switch {
		case i == 0:
			t.head = m.cellsOf(line, styleBold)
			t.rows = append(t.rows, t.head)
		case i > 1:
			t.rows = append(t.rows, m.cellsOf(line, ""))
		}
	}
	_ = t.end() // a Builder takes all
	return strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
}

// cellsOf returns the cells of a line of a table. Each word has its own style, so that a cell can be wrapped.
func (m *markdown) cellsOf(line, style string) (list []string) {
	line = strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(line), "|"), "|")
	cell := ""
	end := func() {
		wide := markdown{width: func() int { return len(line) + 1 }, paint: m.paint}
		list = append(list, wide.wrap(styled(strings.TrimSpace(cell), style), "", "")[0])
		cell = ""
	}
	for _, part := range tableCells.FindAllString(line, -1) {
		if part == "|" {
			end()
			continue
		}
		cell += strings.ReplaceAll(part, `\|`, "|")
	}
	end()
	return list
}
