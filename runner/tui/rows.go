package tui

import (
	"holon/runner/present"
)

// maxRows bounds the rows that are kept; the oldest go first.
const maxRows = 10_000

// rows are what was said and done, in order, each with how it is drawn. Drawings are made when they are needed.
type rows struct {
	list  []drawn
	index map[string]int // of a key in list, less first
	first int            // rows that were dropped
	kept  int            // rows that are in the scrollback
	draw  func(present.Row) []string
	shown func(present.Row) bool
}

// drawn is a row and its lines on screen; nil lines: not drawn yet.
type drawn struct {
	present.Row
	lines []string
	done  bool // it is in the scrollback
}

func newRows(draw func(present.Row) []string, shown func(present.Row) bool) *rows {
	return &rows{index: map[string]int{}, draw: draw, shown: shown}
}

// put adds a row, or changes the one with its key, and returns by how many lines the screen grew.
func (r *rows) put(row present.Row, measure bool) (grown int) {
	if at, ok := r.index[row.Key]; ok && row.Key != "" {
		d := &r.list[at-r.first]
		if measure {
			grown = -len(r.lines(d))
		}
		done := d.done
		*d = drawn{Row: row, done: done}
		if measure {
			grown += len(r.lines(d))
		}
		return grown
	}
	r.index[row.Key] = r.first + len(r.list)
	r.list = append(r.list, drawn{Row: row})
	if measure {
		grown = len(r.lines(&r.list[len(r.list)-1]))
	}
	if over := len(r.list) - maxRows; over > maxRows/10 {
		for _, d := range r.list[:over] {
			delete(r.index, d.Key)
		}
		r.list, r.first = append([]drawn(nil), r.list[over:]...), r.first+over
	}
	return grown
}

// find is the row of a key, nil where there is none.
func (r *rows) find(key string) *present.Row {
	if at, ok := r.index[key]; ok {
		return &r.list[at-r.first].Row
	}
	return nil
}

// lines are the drawing of a row, none where the mode does not show it.
func (r *rows) lines(d *drawn) []string {
	if !r.shown(d.Row) {
		return nil
	}
	if d.lines == nil {
		d.lines = r.draw(d.Row)
	}
	return d.lines
}

// redraw forgets all drawings: the width or the mode changed.
func (r *rows) redraw() {
	for i := range r.list {
		r.list[i].lines = nil
	}
}

// window returns the lines of a screen of some height whose last line is so many above the newest, and that number,
// which is smaller where there are not so many.
func (r *rows) window(height, above int) (lines []string, offset int) {
	var parts [][]string
	have, below := 0, 0 // lines that were met, and those of them that no screen needs
	for i := len(r.list) - 1; i >= 0 && have < height+above && !r.list[i].done; i-- {
		l := r.lines(&r.list[i])
		if parts, have = append(parts, l), have+len(l); have <= above-height {
			parts, below = parts[:0], have
		}
	}
	for i := len(parts) - 1; i >= 0; i-- {
		lines = append(lines, parts[i]...)
	}
	offset = max(0, min(above, have-height))
	if offset < below { // there are fewer lines than were thought
		return r.window(height, offset)
	}
	end := len(lines) - (offset - below)
	return lines[max(0, end-height):end], offset
}

// settled returns the lines of the rows that will not change any more and were not returned before: those before the
// first that goes on, or all.
func (r *rows) settled(all bool) (lines []string) {
	for r.kept = max(r.kept, r.first); r.kept < r.first+len(r.list); r.kept++ {
		d := &r.list[r.kept-r.first]
		if d.Open && !all {
			break
		}
		lines = append(lines, r.lines(d)...)
		d.done, d.lines = true, nil
	}
	return lines
}
