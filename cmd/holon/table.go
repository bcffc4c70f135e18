package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	lipglosstable "charm.land/lipgloss/v2/table"
	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/responses/turns"
	"holon/state/ledger"
)

// table prints rows of what commands list: in columns with a head on a terminal;
// in a pipe as lines of cells with tabs between, without a head, which stay as
// they are from version to version but for cells at the end.
type table struct {
	streams Streams
	head    []string
	rows    [][]string // of a terminal, which are held back for the columns
	cut     []int      // columns that may be shortened
	err     error
}

const columnGap = 2

// newTable makes a table with heads of its columns. Columns whose heads end with "*" are shortened, the widest first,
// where the table is wider than the terminal: they hold nothing that another command takes.
func newTable(streams Streams, heads ...string) *table {
	t := &table{streams: streams, head: slices.Clone(heads)}
	for i, head := range t.head {
		if name, cut := strings.CutSuffix(head, "*"); cut {
			t.head[i], t.cut = name, append(t.cut, i)
		}
	}
	if streams.OutTTY && len(heads) > 0 && !*streams.NoHead {
		t.row(slices.Clone(t.head)...)
	}
	return t
}

// printTable prints a row for each of a list.
func printTable[T any](streams Streams, list []T, heads []string, row func(T) []string) error {
	t := newTable(streams, heads...)
	for _, v := range list {
		t.row(row(v)...)
	}
	return t.end()
}

// tableCommand adds what every command has that prints a table with a head.
func tableCommand(cmd *cobra.Command, streams Streams) *cobra.Command {
	cmd.Flags().BoolVar(streams.NoHead, "no-header", false, "do not name the columns, which only a terminal shows")
	return cmd
}

// Bounds of a cell, in columns of a terminal where the table has a head, and in bytes.
const maxCell, maxCellBytes = 300, 64 << 10

// row prints one line. A cell is one line of printable text; an empty one is "-".
func (t *table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = t.streams.defuse(dash(cell, maxCellBytes))
		if t.streams.OutTTY && len(t.head) > 0 { // not a fact of one thing, which nothing else shows whole
			cells[i] = cut(cells[i], maxCell)
		}
	}
	if t.streams.OutTTY {
		t.rows = append(t.rows, cells)
	} else if t.err == nil {
		_, t.err = fmt.Fprintln(t.streams.Out, strings.Join(cells, "\t"))
	}
}

// end prints what was held back for the columns.
func (t *table) end() error {
	if len(t.rows) == 0 || t.err != nil {
		return t.err
	}
	width := t.fit()
	for _, row := range t.rows {
		for _, i := range t.cut {
			if i < len(row) {
				row[i] = cut(row[i], width[i])
			}
		}
	}
	drawn := lipglosstable.New().Border(lipgloss.Border{}).BorderTop(false).BorderBottom(false).BorderLeft(false).
		BorderRight(false).BorderColumn(false).BorderHeader(false).Rows(t.rows...).Wrap(true).
		StyleFunc(func(_, column int) lipgloss.Style {
			if column == len(width)-1 {
				return lipgloss.NewStyle()
			}
			return lipgloss.NewStyle().PaddingRight(columnGap)
		})
	whole := -columnGap
	for _, w := range width {
		whole += w + columnGap
	}
	if whole > t.streams.Width() {
		drawn.Width(t.streams.Width())
	}
	for line := range strings.Lines(drawn.Render()) {
		if _, t.err = fmt.Fprintln(t.streams.Out, strings.TrimRight(line, " \n")); t.err != nil {
			break
		}
	}
	return t.err
}

const leastColumn = 10

func (t *table) fit() (width []int) {
	for _, row := range t.rows {
		for i, cell := range row {
			if i == len(width) {
				width = append(width, 0)
			}
			width[i] = max(width[i], cells(cell))
		}
	}
	if len(t.cut) == 0 {
		return width
	}
	over := -t.streams.Width() - columnGap
	for _, w := range width {
		over += w + columnGap
	}
	for ; over > 0; over-- {
		widest := t.cut[0]
		for _, i := range t.cut {
			if i < len(width) && width[i] > width[widest] {
				widest = i
			}
		}
		if widest >= len(width) || width[widest] <= leastColumn {
			break
		}
		width[widest]--
	}
	return width
}

func printRow(streams Streams, cells ...string) error {
	t := newTable(streams)
	t.row(cells...)
	return t.end()
}

// facts prints names with their values, one of each in a line. Values of "" are left out.
func facts(streams Streams, pairs ...string) error {
	t := &table{streams: streams}
	for pair := range slices.Chunk(pairs, 2) {
		if pair[1] != "" {
			t.row(pair[0], pair[1])
		}
	}
	return t.end()
}

// when is a time for a person at a terminal, and whole in a pipe.
func (s Streams) when(at turns.Time) string {
	t := at.Time()
	switch {
	case t.IsZero():
		return ""
	case !s.OutTTY:
		return t.Format(time.RFC3339)
	}
	if d := time.Until(t); d > 0 {
		return "in " + age(d)
	}
	return age(time.Since(t)) + " ago"
}

func (s Streams) failure(f *ledger.Failure) string {
	return s.when(turns.At(f.OccurredAt)) + ": " + f.Summary
}

// paragraph prints text of an agent beneath a line of its own.
func (s Streams) paragraph(text string) error {
	return s.indented(strings.TrimSpace(s.shown(text)))
}

// indented prints text that is fit to be printed beneath a line of its own.
func (s Streams) indented(text string) error {
	if text == "" {
		return nil
	}
	_, err := fmt.Fprintln(s.Out, "  "+strings.ReplaceAll(text, "\n", "\n  "))
	return err
}

// oneLine is text of an agent or a daemon as part of a line.
func (s Streams) oneLine(text string, limit int) string {
	return s.defuse(visible.OneLine(text, limit))
}

// printRaw prints JSON of a daemon.
func printRaw(streams Streams, data json.RawMessage) error {
	_, err := fmt.Fprintln(streams.Out, strings.TrimSpace(string(machineText(data))))
	return err
}

// cut shortens text to columns of a terminal.
func cut(text string, width int) string { return ansi.Truncate(text, width, "…") }

func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}
