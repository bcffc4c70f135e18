package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"time"

	"holon/internal/duration"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/runner/present"
)

// message is a message of the model that is shown while it is written.
type message struct {
	item   string
	open   bool   // it goes on
	text   string // as far as it is shown
	whole  int    // how much of it the record has, in bytes
	answer answer
}

// live reports whether messages are shown while they are written.
func (p *progress) live() bool {
	return p.streams.OutTTY && (p.streams.ErrTTY || p.wraps) && !p.streams.CI && !p.quiet && !p.json
}

// Event shows a message of a run's model, and keeps the response, whose text is the answer.
func (p *progress) Event(ev responses.Event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if ev.Response != nil {
		p.final = ev.Response
	}
	m, isMessage := ev.Item.(*responses.Message)
	switch {
	case ev.Type == responses.EventTextDelta:
		p.write(ev.ItemID, p.writtenOf(ev.ItemID), ev.Delta)
	case isMessage && ev.Type == responses.EventItemDone:
		p.write(m.ID, 0, m.Text())
		p.endMessage()
		p.showCommentary(m.Phase, m.Text())
	}
	p.draw()
}

// AgentEvent shows an event of an agent's record: its rows, as they are once they do not change, and the requests to
// models as a run does.
func (p *progress) AgentEvent(ev *view.EventEnvelope) {
	rows := p.fold.Event(ev)
	switch ev.Type {
	case record.ModelDelta:
		p.recorded(ev.Payload.Data)
		return
	case record.ProviderRound:
		p.Fact(turns.RuntimeEvent{Type: turns.ModelFailed, Payload: ev.Payload.Data})
		return
	case turns.ModelRequested, turns.CostRecorded:
		p.Fact(turns.RuntimeEvent{Type: ev.Type, Payload: ev.Payload.Data})
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if ev.Type == record.AssistantRound || ev.Type == turns.ToolStarted {
		p.endMessage()
	}
	for _, row := range rows {
		p.showRow(row)
	}
	if doing := p.fold.Status().Doing; ev.Type == turns.ToolStarted {
		p.doing, p.since = doing, time.Now()
	}
	p.draw()
}

// unshown are the categories whose rows are shown elsewhere: the answer and what is written on standard output, the
// message on the command line.
var unshown = []string{record.CategoryBrief, record.CategoryProgress, record.CategoryMessage, record.CategoryState}

// showRow prints a row that does not change any more. The end of the turn is the summary's.
func (p *progress) showRow(row present.Row) {
	if row.Level > present.Verbose || slices.Contains(unshown, row.Category) || p.announced[row.Key] ||
		row.Open && row.Call != nil || strings.HasPrefix(row.Key, "end-") {
		return
	}
	p.announced[row.Key] = true
	if row.Category != record.CategoryTool || row.Call == nil {
		p.printLocked("  " + visible.OneLine(row.Summary, 500))
		return
	}
	end := present.End{Call: *row.Call, Summary: row.Body}
	if row.Failed && row.Call.ExitCode == nil {
		end.Failure = row.Body
	}
	p.showCall(end)
}

// AgentText shows text that an agent's model writes.
func (p *progress) AgentText(t *wire.Text) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(t.ItemID, t.Offset, t.Text)
	p.draw()
}

// recorded shows what is missing of a message that is in the record, whose text may be in pieces.
func (p *progress) recorded(data json.RawMessage) {
	var t record.Text
	if json.Unmarshal(data, &t) != nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live() {
		p.begin(t.ItemID)
		p.write(t.ItemID, p.message.whole, t.Delta)
		p.message.whole += len(t.Delta)
	}
	p.showCommentary(t.Phase, t.Delta)
	p.draw()
}

// write shows text of a message that begins at an offset of it, as far as it is not shown yet. The caller holds mu.
func (p *progress) write(item string, offset int, text string) {
	if !p.live() {
		return
	}
	p.begin(item)
	m := &p.message
	if !m.open || offset > len(m.text) || offset+len(text) <= len(m.text) {
		return
	}
	text = text[len(m.text)-offset:]
	m.text += text
	p.printRows(m.answer.write(p.streams, text))
	p.doing = "writing"
	if tail := strings.TrimSpace(m.answer.pending); tail != "" {
		p.doing = visible.OneLine(p.streams.Secrets.Text(tail), 500)
	}
}

func (p *progress) begin(item string) {
	if p.message.item != item {
		p.endMessage()
		p.message = message{item: item, open: true}
	}
}

// writtenOf is how much of a message is shown.
func (p *progress) writtenOf(item string) int {
	if p.message.item != item {
		return 0
	}
	return len(p.message.text)
}

// endMessage shows the rest of the message that is being written. The caller holds mu.
func (p *progress) endMessage() {
	if p.message.open {
		p.printRows(p.message.answer.end(p.streams))
		p.message.open, p.doing = false, ""
	}
}

// showCommentary prints a message that is not the answer where messages are not shown while they are written. The
// caller holds mu.
func (p *progress) showCommentary(phase responses.Phase, text string) {
	if text = strings.TrimSpace(text); phase == responses.PhaseCommentary && text != "" && !p.live() {
		p.printLocked("  " + strings.ReplaceAll(p.streams.shown(text), "\n", "\n  "))
	}
}

// printRows prints rows of a message above the status line. The caller holds mu.
func (p *progress) printRows(rows []string) {
	if len(rows) == 0 {
		return
	}
	p.erase()
	for _, row := range rows {
		fmt.Fprintln(p.streams.Out, row)
	}
}

// answer is the text that the turn of a run ended with.
func (p *progress) answer() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.final == nil {
		return ""
	}
	return strings.TrimSpace(p.final.OutputText())
}

// showAnswer prints the answer, unless it stands on the terminal already.
func (p *progress) showAnswer(text string) error {
	p.mu.Lock()
	p.endMessage()
	shown := strings.TrimSpace(p.message.text)
	p.mu.Unlock()
	if text = strings.TrimSpace(text); text == "" || text == shown {
		return nil
	}
	return p.streams.printAnswer(text)
}

// printAnswer prints a text of the model: as Markdown on a terminal, as it is elsewhere.
func (s Streams) printAnswer(text string) error {
	shown := s.shown(text)
	if s.OutTTY && !s.CI {
		shown = s.render(text)
	}
	_, err := fmt.Fprintln(s.Out, shown)
	return err
}

// noticeHandler shows what the runner logs while a run is watched: a line of the progress for each warning, nothing
// for one that is quiet. What a run could not do at all is in its error.
type noticeHandler struct {
	progress *progress
}

// Enabled implements slog.Handler.
func (h *noticeHandler) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && !h.progress.quiet
}

// Handle implements slog.Handler.
func (h *noticeHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	b.WriteString("  ! " + r.Message)
	show := func(a slog.Attr) bool {
		value := a.Value.String()
		if a.Value.Kind() == slog.KindDuration {
			value = duration.Text(a.Value.Duration())
		}
		b.WriteString(", " + a.Key + " " + value)
		return true
	}
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "err" {
			b.WriteString(": " + a.Value.String())
			return true
		}
		return show(a)
	})
	h.progress.println(visible.OneLine(b.String(), 500))
	return nil
}

// WithAttrs implements slog.Handler. What all records have is left out: there is one run.
func (h *noticeHandler) WithAttrs([]slog.Attr) slog.Handler { return h }

// WithGroup implements slog.Handler.
func (h *noticeHandler) WithGroup(string) slog.Handler { return h }

// notices are the streams for what a run prints before it begins.
func (p *progress) notices() Streams {
	s := p.streams
	if p.quiet {
		s.Err = io.Discard
	}
	return s
}
