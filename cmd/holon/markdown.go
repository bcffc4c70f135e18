package main

import (
	"cmp"
	"regexp"
	"strings"
	"unicode"

	"golang.org/x/text/width"
)

// markdown shows Markdown of a model on a terminal, line by line as it arrives: headings and emphasis by style, lists
// with their indentation, code as it is, text wrapped at words. A word is never broken, since that could hide a secret
// from what takes secrets out. It is a reader of the usual forms, and shows what it does not know as it is.
type markdown struct {
	width  func() int
	paint  func(style, text string) string
	inCode bool
	table  []string // lines of the table that is being written, whose columns are known at its end
}

// Styles of a terminal (SGR).
const (
	styleBold   = "1"
	styleDim    = "2"
	styleItalic = "3"
	styleRed    = "31"
	styleGreen  = "32"
	styleCode   = "36"
)

// paint gives text a style, unless the person wants none (https://no-color.org). The text is fit to be printed already.
func (s Streams) paint(style, text string) string {
	if s.NoColor || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

var (
	fenceLine  = regexp.MustCompile("^\\s*(```|~~~)")
	headLine   = regexp.MustCompile(`^#{1,6} +(.*)$`)
	itemLine   = regexp.MustCompile(`^(\s*)([-*+]|\d{1,3}[.)]) +(.*)$`)
	quoteLine  = regexp.MustCompile(`^> ?(.*)$`)
	ruleLine   = regexp.MustCompile(`^ {0,3}(-{3,}|\*{3,}|_{3,})\s*$`)
	inlineMark = regexp.MustCompile("`[^`]+`|\\*\\*[^*]+\\*\\*|\\*[^*\\s](?:[^*]*[^*\\s])?\\*|" + link)
)

// rows returns a line of Markdown, which is fit to be printed, as rows of the terminal.
func (m *markdown) rows(line string) []string {
	if fenceLine.MatchString(line) {
		m.inCode = !m.inCode
		return nil
	}
	if m.inCode {
		return []string{"  " + m.paint(styleCode, strings.ReplaceAll(line, "\t", "    "))}
	}
	if found := headLine.FindStringSubmatch(line); found != nil {
		return m.wrap([]span{{found[1], styleBold}}, "", "")
	}
	if ruleLine.MatchString(line) {
		return []string{m.paint(styleDim, strings.Repeat("─", min(40, m.width())))}
	}
	if found := itemLine.FindStringSubmatch(line); found != nil {
		mark := found[2]
		if strings.Contains("-*+", mark) {
			mark = "•"
		}
		first := found[1] + mark + " "
		return m.wrap(spans(found[3]), first, strings.Repeat(" ", cells(first)))
	}
	if found := quoteLine.FindStringSubmatch(line); found != nil {
		return m.wrap(spans(found[1]), "│ ", "│ ")
	}
	return m.wrap(spans(line), "", "")
}

// settled reports whether more text behind a line cannot change how its beginning is shown.
func settled(line string) bool {
	rest := inlineMark.ReplaceAllString(line, "")
	return !strings.ContainsAny(rest, "*`") && !openLink.MatchString(rest)
}

// span is text with a style, "" for none.
type span struct{ text, style string }

// spans reads emphasis, code and links within a line.
func spans(line string) (list []span) {
	for {
		at := inlineMark.FindStringIndex(line)
		if at == nil {
			return append(list, span{line, ""})
		}
		list = append(list, span{line[:at[0]], ""})
		switch marked := line[at[0]:at[1]]; {
		case marked[0] == '`':
			list = append(list, span{strings.Trim(marked, "`"), styleCode})
		case strings.HasPrefix(marked, "**"):
			list = append(list, styled(strings.Trim(marked, "*"), styleBold)...)
		case marked[0] == '*':
			list = append(list, styled(strings.Trim(marked, "*"), styleItalic)...)
		default:
			list = append(list, linkSpans(marked)...)
		}
		line = line[at[1]:]
	}
}

// styled gives a style to what has none in a text.
func styled(text, style string) []span {
	list := spans(text)
	for i := range list {
		list[i].style = cmp.Or(list[i].style, style)
	}
	return list
}

// wrap breaks spans into rows at spaces. The first row begins with first, the others with rest.
func (m *markdown) wrap(list []span, first, rest string) []string {
	var rows []string
	row, at := first, cells(first)
	start := at
	space := false // between what is in the row and the next word
	for _, word := range words(list) {
		if word == nil {
			space = at > start
			continue
		}
		size := 0
		for _, s := range word {
			size += cells(s.text)
		}
		if space && at+1+size > m.width() {
			rows = append(rows, row)
			row, at, start, space = rest, cells(rest), cells(rest), false
		}
		if space {
			row, at, space = row+" ", at+1, false
		}
		for _, s := range word {
			if s.style != "" {
				s.text = m.paint(s.style, s.text)
			}
			row += s.text
		}
		at += size
	}
	return append(rows, row)
}

// words splits spans at spaces: a word is the pieces without a space between them, and nil stands for spaces.
func words(list []span) (out [][]span) {
	var word []span
	for _, s := range list {
		for i, part := range strings.FieldsFunc(markSpaces(s.text), func(r rune) bool { return r == 0 }) {
			if i == 0 && part != " " || part != " " {
				word = append(word, span{part, s.style})
				continue
			}
			if word != nil {
				out, word = append(out, word), nil
			}
			out = append(out, nil)
		}
	}
	if word != nil {
		out = append(out, word)
	}
	return out
}

// markSpaces puts NUL, which text that is fit to be printed does not hold, around runs of spaces.
func markSpaces(text string) string { return spaces.ReplaceAllString(text, "\x00 \x00") }

var spaces = regexp.MustCompile(`[ \t]+`)

// styles are what paint puts around text. Text that is fit to be printed holds none.
var styles = regexp.MustCompile("\x1b\\[[0-9]*m")

// cells is how many columns text takes.
func cells(text string) (n int) {
	if strings.Contains(text, "\x1b") {
		text = styles.ReplaceAllString(text, "")
	}
	for _, r := range text {
		switch kind := width.LookupRune(r).Kind(); {
		case unicode.In(r, unicode.Mn, unicode.Me):
		case kind == width.EastAsianWide || kind == width.EastAsianFullwidth:
			n += 2
		default:
			n++
		}
	}
	return n
}
