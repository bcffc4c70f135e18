package main

import (
	"fmt"
	"html"
	"strings"

	"holon/internal/visible"

	"charm.land/lipgloss/v2"
	lipglosstable "charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	extast "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// renderer draws the syntax tree of a Markdown text for a terminal.
type renderer struct {
	source []byte
	color  bool
}

// renderMarkdown draws text in rows of at most width columns. It must be fit to be printed already.
func renderMarkdown(markdown string, width int, color bool) string {
	r := renderer{[]byte(markdown), color}
	parser := goldmark.New(goldmark.WithExtensions(extension.GFM)).Parser()
	return strings.Join(r.blocks(parser.Parse(text.NewReader(r.source)), width), "\n")
}

// A style is switched off by a code of its own, so that it can stand within another.
func (r renderer) mark(on, off, text string) string {
	if !r.color || text == "" {
		return text
	}
	return "\x1b[" + on + "m" + text + "\x1b[" + off + "m"
}

func (r renderer) bold(text string) string { return r.mark("1", "22", text) }

func (r renderer) code(text string) string { return r.mark("36", "39", text) }

// blocks draws the blocks below a node, with an empty row between them except in a list that has none.
func (r renderer) blocks(parent ast.Node, width int) (rows []string) {
	list, _ := parent.(*ast.List)
	item, _ := parent.(*ast.ListItem)
	if item != nil {
		list, _ = item.Parent().(*ast.List)
	}
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		if len(rows) > 0 && (list == nil || !list.IsTight) {
			rows = append(rows, "")
		}
		rows = append(rows, r.block(n, width)...)
	}
	return rows
}

func (r renderer) block(n ast.Node, width int) []string {
	switch n := n.(type) {
	case *ast.Heading:
		return r.wrap(r.bold(r.inline(n)), width)
	case *ast.Blockquote:
		return r.indented("│ ", "│ ", n, width)
	case *ast.List:
		return r.blocks(n, width)
	case *ast.ListItem:
		first := "• "
		if list, ok := n.Parent().(*ast.List); ok && list.IsOrdered() {
			number := list.Start
			for before := n.PreviousSibling(); before != nil; before = before.PreviousSibling() {
				number++
			}
			first = fmt.Sprintf("%d. ", number)
		}
		return r.indented(first, strings.Repeat(" ", cells(first)), n, width)
	case *ast.ThematicBreak:
		return []string{"────────"}
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		return prefixed("  ", "  ", r.wrapLines(n, width-2, r.code))
	case *ast.HTMLBlock:
		return r.wrapLines(n, width, func(line string) string { return line })
	case *extast.Table:
		return r.table(n, width)
	}
	return r.wrap(r.inline(n), width)
}

func (r renderer) wrap(text string, width int) []string {
	return strings.Split(ansi.Wrap(text, width, ""), "\n")
}

// wrapLines draws the lines of a block that has no inline marks, each in a style.
func (r renderer) wrapLines(n ast.Node, width int, style func(string) string) (rows []string) {
	for _, line := range n.Lines().Sliced(0, n.Lines().Len()) {
		for _, row := range r.wrap(strings.TrimRight(string(line.Value(r.source)), "\r\n"), width) {
			rows = append(rows, style(row))
		}
	}
	return rows
}

// leastText is the fewest columns that a prefix leaves to the text behind it.
const leastText = 5

// indented draws the blocks below a node behind first and rest. Where little room is left it leaves these out, which
// bounds the work for a text that is nested ten thousand times.
func (r renderer) indented(first, rest string, n ast.Node, width int) []string {
	if width-cells(first) < leastText {
		return r.blocks(n, width)
	}
	return prefixed(first, rest, r.blocks(n, width-cells(first)))
}

// prefixed sets first before the first row and rest before the others.
func prefixed(first, rest string, rows []string) []string {
	if len(rows) == 0 {
		return []string{first}
	}
	for i, row := range rows {
		if i > 0 {
			first = rest
		}
		rows[i] = strings.TrimRight(first+row, " ")
	}
	return rows
}

// inline returns the text below a block, with its lines as they are.
func (r renderer) inline(parent ast.Node) string {
	var b strings.Builder
	for n := parent.FirstChild(); n != nil; n = n.NextSibling() {
		switch n := n.(type) {
		case *ast.Text:
			text := string(n.Value(r.source))
			if !n.IsRaw() { // an entity may be a control character
				text = visible.Text(html.UnescapeString(string(util.UnescapePunctuations([]byte(text)))))
			}
			b.WriteString(text)
			if n.SoftLineBreak() || n.HardLineBreak() {
				b.WriteByte('\n')
			}
		case *ast.String:
			b.Write(n.Value)
		case *ast.CodeSpan:
			b.WriteString(r.code(r.inline(n)))
		case *ast.Emphasis:
			if n.Level > 1 {
				b.WriteString(r.bold(r.inline(n)))
			} else {
				b.WriteString(r.mark("3", "23", r.inline(n)))
			}
		case *ast.Link:
			b.WriteString(linked(r.inline(n), string(n.Destination)))
		case *ast.Image:
			b.WriteString(linked(r.inline(n), string(n.Destination)))
		case *ast.AutoLink:
			b.Write(n.Label(r.source))
		case *ast.RawHTML:
			b.Write(n.Segments.Value(r.source))
		case *extast.TaskCheckBox:
			b.WriteString(map[bool]string{true: "[x] ", false: "[ ] "}[n.IsChecked])
		default:
			b.WriteString(r.inline(n))
		}
	}
	return b.String()
}

// linked shows the address next to the text: a person judges a link by it.
func linked(text, address string) string {
	if text == "" || text == address {
		return address
	}
	return text + " (" + address + ")"
}

func (r renderer) table(n *extast.Table, width int) (rows []string) {
	t := lipglosstable.New().Border(lipgloss.NormalBorder()).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).Wrap(true).
		StyleFunc(func(row, column int) lipgloss.Style {
			return lipgloss.NewStyle().Padding(0, 1).Bold(r.color && row == lipglosstable.HeaderRow)
		})
	for row := n.FirstChild(); row != nil; row = row.NextSibling() {
		var cells []string
		for cell := row.FirstChild(); cell != nil; cell = cell.NextSibling() {
			cells = append(cells, r.inline(cell))
		}
		if row.Kind() == extast.KindTableHeader {
			t.Headers(cells...)
		} else {
			t.Row(cells...)
		}
	}
	if lipgloss.Width(t.Render()) > width {
		t.Width(width)
	}
	for line := range strings.Lines(t.Render()) {
		rows = append(rows, strings.TrimRight(line, " \n"))
	}
	return rows
}
