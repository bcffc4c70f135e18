// Package terminal draws Markdown of a model for a terminal, with glamour. What it returns controls nothing but the
// style of its own words: a text is hostile.
package terminal

import (
	"html"
	"strings"

	"charm.land/glamour/v2"
	"charm.land/glamour/v2/ansi"
	xansi "github.com/charmbracelet/x/ansi"

	"holon/internal/pattern"
	"holon/internal/visible"
)

// Render draws text in rows of at most width columns, wrapped at words, without an empty row at either end. dark is of
// the terminal's background; without color there are no styles. Colours are the 16 that a person chooses.
func Render(text string, width int, dark, color bool) string {
	text = entity().ReplaceAllStringFunc(strings.ReplaceAll(visible.Text(text), less, ""), shownEntity)
	if nested().MatchString(text) {
		return xansi.Wrap(text, width, "")
	}
	// with a base that is no address, addresses are shown as they are written
	r, err := glamour.NewTermRenderer(glamour.WithStyles(style(dark)), glamour.WithWordWrap(width),
		glamour.WithBaseURL("%"),
		glamour.WithPreservedNewLines(), glamour.WithInlineTableLinks(true), glamour.WithChromaFormatter("terminal16"))
	if err == nil {
		var drawn string
		if drawn, err = r.Render(angle().ReplaceAllStringFunc(text, shownAngle)); err == nil {
			return xansi.Hardwrap(harmless(strings.ReplaceAll(drawn, less, "<"), color), width, true)
		}
	}
	return xansi.Wrap(text, width, "") // as it is
}

var (
	entity = pattern.Lazy(`&#[0-9A-Za-z]{1,12};?`)
	// nested matches what begins so many blocks in each other that drawing them takes time out of proportion.
	nested = pattern.Lazy(`(?m)^(?:[ \t]*(?:>|[-*+][ \t]|[0-9]{1,9}[.)][ \t])){16}`)
	// angle matches a "<", with the address that it begins: glamour would leave out what looks like HTML.
	angle = pattern.Lazy(`<(?:[A-Za-z][A-Za-z0-9+.-]{1,31}:[^\s<>]*>|[^\s<>]+@[^\s<>]+>)?`)
	sgr   = pattern.Lazy(`\x1b\[[0-9;:]*m`)
)

// less stands for a "<" while Markdown is read. It is no character.
const less = "\ufdd0"

// shownAngle is less, or an address, which is a link.
func shownAngle(found string) string {
	if found == "<" {
		return less
	}
	return found
}

// shownEntity is an entity that stands for a character, or nothing where that would be hidden.
func shownEntity(entity string) string {
	for _, r := range html.UnescapeString(entity) {
		if visible.Hidden(r) {
			return ""
		}
	}
	return entity
}

// harmless is rows that have no other sequences than styles, and no space at their ends.
func harmless(drawn string, color bool) string {
	var b strings.Builder
	at := 0
	for _, m := range sgr().FindAllStringIndex(drawn, -1) {
		b.WriteString(visible.Text(xansi.Strip(drawn[at:m[0]])))
		if at = m[1]; color {
			b.WriteString(drawn[m[0]:m[1]])
		}
	}
	b.WriteString(visible.Text(xansi.Strip(drawn[at:])))
	rows := strings.Split(b.String(), "\n")
	for i, row := range rows {
		rows[i] = trimRight(row)
	}
	for len(rows) > 1 && rows[0] == "" {
		rows = rows[1:]
	}
	return strings.TrimRight(strings.Join(rows, "\n"), "\n")
}

// trimRight cuts the spaces with which glamour fills a row, in whatever styles they are.
func trimRight(row string) string {
	bare := strings.TrimRight(xansi.Strip(row), " ")
	if bare == "" {
		return ""
	}
	return xansi.Truncate(row, xansi.StringWidth(bare), "")
}

// style is how blocks and words look.
func style(dark bool) ansi.StyleConfig {
	code, link := "6", "4"
	if dark {
		code, link = "14", "12"
	}
	on, margin, quote := new(true), new(uint(0)), "│ "
	bold := ansi.StylePrimitive{Bold: on}
	return ansi.StyleConfig{
		Document:   ansi.StyleBlock{Margin: margin},
		BlockQuote: ansi.StyleBlock{Indent: new(uint(1)), IndentToken: &quote},
		List:       ansi.StyleList{LevelIndent: 2},
		Heading:    ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{BlockSuffix: "\n", Bold: on}},
		Strong:     bold, Emph: ansi.StylePrimitive{Italic: on}, Strikethrough: ansi.StylePrimitive{CrossedOut: on},
		HorizontalRule: ansi.StylePrimitive{Format: "\n────────\n"},
		Item:           ansi.StylePrimitive{BlockPrefix: "• "},
		Enumeration:    ansi.StylePrimitive{BlockPrefix: ". "},
		Task:           ansi.StyleTask{Ticked: "[x] ", Unticked: "[ ] "},
		Link:           ansi.StylePrimitive{Color: &link, Underline: on}, LinkText: bold,
		Image: ansi.StylePrimitive{Color: &link, Underline: on}, ImageText: ansi.StylePrimitive{},
		Code: ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: &code}},
		CodeBlock: ansi.StyleCodeBlock{StyleBlock: ansi.StyleBlock{StylePrimitive: ansi.StylePrimitive{Color: &code},
			Margin: new(uint(2))}},
	}
}
