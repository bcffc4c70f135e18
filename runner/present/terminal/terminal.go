// Package terminal draws Markdown of a model for a terminal. What it returns controls nothing but the style of its own
// words: a text is hostile.
package terminal

import (
	"bufio"
	"bytes"
	"fmt"
	"html"
	"strings"
	"sync"

	"charm.land/lipgloss/v2"
	lipglosstable "charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	goldmarkhtml "github.com/yuin/goldmark/renderer/html"
	"github.com/yuin/goldmark/text"

	"holon/internal/pattern"
	"holon/internal/visible"
)

// Render draws text in rows of at most width columns, wrapped at words, without an empty row at either end. dark is of
// the terminal's background; without color there are no styles. Colours are the 16 that a person chooses.
func Render(markdown string, width int, dark, color bool) string {
	markdown = visible.Text(markdown)
	if nested().MatchString(markdown) {
		return ansi.Wrap(markdown, width, "")
	}
	d := drawing{source: []byte(markdown), color: color, codeColor: "36", linkColor: "34"}
	if dark {
		d.codeColor, d.linkColor = "96", "94"
	}
	rows := d.blocks(markdownParser().Parse(text.NewReader(d.source)), width)
	return ansi.Hardwrap(strings.Trim(strings.Join(rows, "\n"), "\n"), width, true)
}

var markdownParser = sync.OnceValue(func() parser.Parser {
	return goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
})

// nested matches what begins so many blocks in each other that drawing them takes time out of proportion.
var nested = pattern.Lazy(`(?m)^(?:[ \t]*(?:>|[-*+][ \t]|[0-9]{1,9}[.)][ \t])){16}`)

// drawing draws the syntax tree of a text.
type drawing struct {
	source               []byte
	color                bool
	codeColor, linkColor string
}

// mark sets text in a style, which has a code of its own that ends it, so that it can stand within another.
func (d drawing) mark(on, off, text string) string {
	if !d.color || text == "" {
		return text
	}
	on, off = "\x1b["+on+"m", "\x1b["+off+"m"
	return on + strings.ReplaceAll(text, off, off+on) + off
}

func (d drawing) bold(text string) string { return d.mark("1", "22", text) }

func (d drawing) code(text string) string { return d.mark(d.codeColor, "39", text) }

// blocks draws the blocks below a node, with an empty row between them except in a list that has none.
func (d drawing) blocks(parent ast.Node, width int) (rows []string) {
	list, _ := parent.(*ast.List)
	if item, ok := parent.(*ast.ListItem); ok {
		list, _ = item.Parent().(*ast.List)
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if len(rows) > 0 && (list == nil || !list.IsTight) {
			rows = append(rows, "")
		}
		rows = append(rows, d.block(n, width)...)
	}
	return rows
}

func (d drawing) block(n ast.Node, width int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		return wrap(d.bold(d.inline(n)), width)
	case *ast.Blockquote:
		return d.indented("│ ", "│ ", n, width)
	case *ast.List:
		return d.blocks(n, width)
	case *ast.ListItem:
		first := bullet(n)
		return d.indented(first, strings.Repeat(" ", ansi.StringWidth(first)), n, width)
	case *ast.ThematicBreak:
		return []string{"────────"}
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return prefixed("  ", "  ", wrap(d.code(d.lines(n)), width-2))
	case *ast.HTMLBlock:
		text := d.lines(n)
		if n.HasClosure() {
			text += "\n" + strings.TrimRight(string(n.ClosureLine.Value(d.source)), "\r\n")
		}
		return wrap(strings.TrimPrefix(text, "\n"), width)
	case *extast.Table:
		return d.table(n, width)
	}
	return wrap(d.inline(n), width)
}

// bullet is what stands before an item of a list.
func bullet(n *ast.ListItem) string {
	if block := n.FirstChild(); block != nil {
		if box, ok := block.FirstChild().(*extast.TaskCheckBox); ok {
			return map[bool]string{true: "[x] ", false: "[ ] "}[box.IsChecked]
		}
	}
	list, ok := n.Parent().(*ast.List)
	if !ok || !list.IsOrdered() {
		return "• "
	}
	number := list.Start
	for before := n.PreviousSibling(); before != nil; before = before.PreviousSibling() {
		number++
	}
	return fmt.Sprintf("%d. ", number)
}

// wrap is text in rows, each with the styles that it needs.
func wrap(text string, width int) []string {
	return strings.Split(lipgloss.Wrap(text, max(1, width), ""), "\n")
}

// lines are those of a block that has no inline marks.
func (d drawing) lines(n ast.Node) string {
	return strings.ReplaceAll(strings.TrimRight(string(n.Lines().Value(d.source)), "\r\n"), "\t", "    ")
}

// leastText is the fewest columns that a prefix leaves to the text behind it.
const leastText = 5

// indented draws the blocks below a node behind first and rest, which it leaves out where little room is left.
func (d drawing) indented(first, rest string, n ast.Node, width int) []string {
	if width-ansi.StringWidth(first) < leastText {
		return d.blocks(n, width)
	}
	return prefixed(first, rest, d.blocks(n, width-ansi.StringWidth(first)))
}

// prefixed sets first before the first row and rest before the others.
func prefixed(first, rest string, rows []string) []string {
	if len(rows) == 0 {
		return []string{strings.TrimRight(first, " ")}
	}
	for i, row := range rows {
		if i > 0 {
			first = rest
		}
		rows[i] = strings.TrimRight(first+row, " ")
	}
	return rows
}

// inline is the text below a block, with its lines as they are.
func (d drawing) inline(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		b.WriteString(d.span(n))
	}
	return b.String()
}

func (d drawing) span(n ast.Node) string {
	switch n := n.(type) {
	case *ast.Text:
		return d.words(n)
	case *ast.String:
		return string(n.Value)
	case *ast.CodeSpan:
		return d.code(d.inline(n))
	case *ast.Emphasis:
		if n.Level > 1 {
			return d.bold(d.inline(n))
		}
		return d.mark("3", "23", d.inline(n))
	case *extast.Strikethrough:
		return d.mark("9", "29", d.inline(n))
	case *ast.Link:
		return d.linked(d.inline(n), n.Destination)
	case *ast.Image:
		return d.linked(d.inline(n), n.Destination)
	case *ast.AutoLink:
		return d.linked("", n.Label(d.source))
	case *ast.RawHTML:
		return string(n.Segments.Value(d.source))
	case *extast.TaskCheckBox: // bullet shows it
		return ""
	}
	return d.inline(n)
}

func (d drawing) words(n *ast.Text) string {
	words := string(n.Value(d.source))
	if !n.IsRaw() {
		words = plain(n.Value(d.source))
	}
	if n.SoftLineBreak() || n.HardLineBreak() {
		words += "\n"
	}
	return words
}

// plain is what escapes and entities stand for, unless that would be hidden.
func plain(source []byte) string {
	var out bytes.Buffer
	w := bufio.NewWriter(&out)
	goldmarkhtml.DefaultWriter.Write(w, source)
	_ = w.Flush()
	return strings.Map(func(r rune) rune {
		if r == '\t' {
			return ' '
		} else if visible.Hidden(r) {
			return -1
		}
		return r
	}, html.UnescapeString(out.String()))
}

// linked shows the address next to the text: a person judges a link by it.
func (d drawing) linked(text string, destination []byte) string {
	address := d.mark(d.linkColor+";4", "39;24", plain(destination))
	if text == "" || ansi.Strip(text) == ansi.Strip(address) {
		return address
	}
	return text + " (" + address + ")"
}

func (d drawing) table(n *extast.Table, width int) (rows []string) {
	t := lipglosstable.New().Border(lipgloss.NormalBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).Wrap(true).
		StyleFunc(func(row, column int) lipgloss.Style {
			return lipgloss.NewStyle().Padding(0, 1).Bold(d.color && row == lipglosstable.HeaderRow)
		})
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, d.inline(cell))
		}
		if row.Kind() == extast.KindTableHeader {
			t.Headers(cells...)
		} else {
			t.Row(cells...)
		}
	}
	drawn := t.Render()
	if lipgloss.Width(drawn) > width {
		drawn = t.Width(width).Render()
	}
	for line := range strings.Lines(drawn) {
		rows = append(rows, strings.TrimRight(line, " \n"))
	}
	return rows
}
