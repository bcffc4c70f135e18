package main

import (
	"fmt"
	"slices"
	"strings"

	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
)

// liveAnswer shows on a terminal what an agent writes, while it writes it, and what it does in between, in the order of
// its events.
type liveAnswer struct {
	streams Streams
	on      bool    // there is a terminal to show it on
	writing *answer // nil when no message is being written
	item    string  // that is shown
	text    string  // of it, as far as it is shown
	whole   string  // of it, as far as it is recorded
	told    []string
}

// showLive shows what the agent writes. Without a terminal, or quiet, it shows nothing.
func (r *remote) showLive(quiet bool) *liveAnswer {
	return &liveAnswer{streams: r.streams,
		on: !quiet && r.streams.OutTTY && r.streams.ErrTTY && !r.streams.CI}
}

// write prints a piece of a message that is being written.
func (l *liveAnswer) write(t *wire.Text) {
	if !l.on {
		return
	}
	l.begin(t.ItemID)
	if t.Offset <= len(l.text) && t.Offset+len(t.Text) > len(l.text) {
		l.print(t.Text[len(l.text)-t.Offset:])
	}
}

// recorded prints what is missing of a message that is complete, and reports whether messages are shown. Its text may
// come in pieces.
func (l *liveAnswer) recorded(t record.Text) bool {
	if !l.on {
		return false
	}
	l.begin(t.ItemID)
	l.whole += t.Delta
	if len(l.whole) > len(l.text) {
		l.print(l.whole[len(l.text):])
	}
	return true
}

func (l *liveAnswer) begin(item string) {
	if l.item != item {
		l.end()
		l.item, l.writing, l.text, l.whole = item, &answer{}, "", ""
	}
}

func (l *liveAnswer) print(text string) {
	if l.writing == nil {
		return // something was done since
	}
	l.text += text
	l.rows(l.writing.write(l.streams, text))
}

// end ends the message that is being written.
func (l *liveAnswer) end() {
	if l.writing == nil {
		return
	}
	l.rows(l.writing.end(l.streams))
	l.writing = nil
	l.told = append(l.told, strings.TrimSpace(l.text))
}

func (l *liveAnswer) rows(rows []string) {
	for _, row := range rows {
		fmt.Fprintln(l.streams.Out, row)
	}
}

// line prints a line about what is done, behind the message before it.
func (l *liveAnswer) line(text string) {
	l.end()
	fmt.Fprintln(l.streams.Err, "  "+text)
}

// close ends it, and reports whether the last text of a turn stands on the terminal.
func (l *liveAnswer) close(last string) bool {
	l.end()
	return slices.Contains(l.told, strings.TrimSpace(last))
}

// lastOf is what a message's turn said last.
func lastOf(end view.MessageState) string {
	if end.Turn == nil {
		return ""
	}
	return end.Turn.Last
}
