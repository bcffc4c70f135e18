package console

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/present"
)

const (
	pageRows   = 200              // events of a page of rows
	writeTime  = 10 * time.Second // how long a browser may take nothing
	outputTime = time.Second      // between looks at what a task prints
)

// cursor is a place in an agent's events: the epoch of the log, and the last number that was seen.
type cursor struct {
	epoch string
	seq   int64
}

func (c cursor) String() string { return c.epoch + "." + strconv.FormatInt(c.seq, 10) }

func parseCursor(s string) (cursor, bool) {
	at := strings.LastIndexByte(s, '.')
	if at < 0 {
		return cursor{}, false
	}
	seq, err := strconv.ParseInt(s[at+1:], 10, 64)
	return cursor{s[:at], seq}, err == nil && seq >= 0
}

// modeOf is the display mode that a request asks for; by default it is info.
func modeOf(r *http.Request) present.Mode {
	if m, err := present.ParseMode(r.URL.Query().Get("mode")); err == nil {
		return m
	}
	return present.Info
}

// folded are the rows of a page of events in their order, each in its newest state.
type folded struct {
	Rows   []present.Row
	Oldest int64 // event from which on there are rows; 0: nothing is older
	cursor
}

// fold reads the events before a number, 0 for the newest, and makes rows of them.
func (c *Console) fold(ctx context.Context, agentID string, before int64, mode present.Mode, f *present.Fold) (
	out folded, err error) {
	found, err := c.client.Events(ctx, agentID, view.EventQuery{BeforeSeq: before, Limit: pageRows, Descending: true})
	if err != nil {
		return out, err
	}
	var rows present.List
	for i := range slices.Backward(found.Events) {
		rows.Put(f.Event(&found.Events[i])...)
	}
	out.Rows = rows.Rows(mode)
	out.epoch = found.Epoch
	if n := len(found.Events); n > 0 {
		out.seq = found.Events[0].EventSeq
		if found.HasOlder {
			out.Oldest = found.Events[n-1].EventSeq
		}
	}
	return out, nil
}

// rows answers with rows that are older than an event, as a part of a page.
func (c *Console) rows(w http.ResponseWriter, r *http.Request) {
	before, _ := strconv.ParseInt(r.URL.Query().Get("before"), 10, 64) // 0: the newest
	found, err := c.fold(r.Context(), r.PathValue("id"), max(before, 0), modeOf(r), new(present.Fold))
	var out bytes.Buffer
	if err == nil {
		err = c.pages["row"].ExecuteTemplate(&out, "rows", found)
	}
	if err != nil {
		f, status, _ := wire.Explain(err)
		http.Error(w, f.Error.Message, status)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Holon-Oldest", strconv.FormatInt(found.Oldest, 10))
	w.Header().Set("Holon-Cursor", found.String())
	_, _ = w.Write(out.Bytes()) // an error means that the browser is gone
}

// change is a message of a stream: a row as HTML, or what its text is longer by.
type change struct {
	Key      string `json:"key"`
	Seq      int64  `json:"seq"`
	Category string `json:"category"`
	HTML     string `json:"html,omitempty"`
	Append   string `json:"append,omitempty"`
	Gone     bool   `json:"gone,omitempty"` // the row is taken back
}

// browser is one stream to a browser. It belongs to one goroutine.
type browser struct {
	w    http.ResponseWriter
	rows *template.Template
	mode present.Mode
	open change // the text that is written now, as it was sent; Append has all of it
}

func newBrowser(w http.ResponseWriter, rows *template.Template, mode present.Mode) *browser {
	w.Header().Set("Content-Type", "text/event-stream")
	return &browser{w: w, rows: rows, mode: mode}
}

// send writes one message. id "" leaves the browser's cursor where it is.
func (b *browser) send(event, id string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return fmt.Errorf("encode a message of a stream: %w", err)
	}
	var out bytes.Buffer
	if id != "" {
		fmt.Fprintf(&out, "id: %s\n", id)
	}
	fmt.Fprintf(&out, "retry: 500\nevent: %s\ndata: %s\n\n", event, text)
	control := http.NewResponseController(b.w)
	_ = control.SetWriteDeadline(time.Now().Add(writeTime)) // a recorder in a test has none
	if _, err := b.w.Write(out.Bytes()); err != nil {
		return err
	}
	return control.Flush()
}

// row sends a row, or only what its text is longer by.
func (b *browser) row(row present.Row, id string) error {
	text := visible.Text(row.Body)
	out := change{Key: row.Key, Seq: row.Seq, Category: row.Category}
	more, longer := strings.CutPrefix(text, b.open.Append)
	switch {
	case row.Level > present.Debug:
		out.Gone = true
	case row.Level > b.mode:
		return nil
	case row.Open && row.Markdown && row.Key == b.open.Key && longer:
		out.Append = more
	default:
		var html bytes.Buffer
		if err := b.rows.ExecuteTemplate(&html, "row", row); err != nil {
			return fmt.Errorf("draw a row: %w", err)
		}
		out.HTML = html.String()
	}
	b.open = change{}
	if row.Open && row.Markdown {
		b.open = change{Key: row.Key, Append: text}
	}
	return b.send("row", id, out)
}

// stream sends an agent's rows as they come, from the browser's cursor on. A browser that comes back says where it was
// (Last-Event-ID); what goes on at that place is folded again, so that it goes on in the same row.
func (c *Console) stream(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	from, ok := parseCursor(r.Header.Get("Last-Event-ID"))
	if !ok {
		from, ok = parseCursor(r.URL.Query().Get("from"))
	}
	if !ok {
		http.Error(w, "the cursor is missing", http.StatusBadRequest)
		return
	}
	var fold present.Fold
	if _, err := c.fold(ctx, id, from.seq+1, present.Debug, &fold); err != nil {
		f, status, _ := wire.Explain(err)
		http.Error(w, f.Error.Message, status)
		return
	}
	b := newBrowser(w, c.pages["row"], modeOf(r))
	if b.send("live", from.String(), struct{}{}) != nil {
		return
	}
	for item, err := range c.client.Follow(ctx, id, client.Follow{After: from.seq, Epoch: from.epoch, Text: true}) {
		switch {
		case err != nil:
			c.log.Debug("a stream of the console ended", "agent", id, "err", err)
			return
		case item.Reset != nil:
			_ = b.send("reset", cursor{item.Reset.Epoch, item.Reset.AfterSeq}.String(), struct{}{})
			return // the page reads the snapshot again
		case item.Text != nil:
			err = b.row(fold.Text(item.Text), "")
		case item.Event != nil:
			from.seq = item.Event.EventSeq
			for _, row := range fold.Event(item.Event) {
				if err == nil {
					err = b.row(row, from.String())
				}
			}
		}
		if err != nil {
			return
		}
	}
}

// turnStream sends the rows of a session's turn, from its beginning, until it ends. The same rows change when a browser
// comes back.
func (c *Console) turnStream(w http.ResponseWriter, r *http.Request) {
	ctx, id := r.Context(), r.PathValue("id")
	asked, err := c.client.Responses().InputItems(ctx, id)
	if err != nil {
		f, status, _ := wire.Explain(err)
		http.Error(w, f.Error.Message, status)
		return
	}
	b := newBrowser(w, c.pages["row"], modeOf(r))
	send := func(rows []present.Row) {
		for _, row := range rows {
			if err == nil {
				err = b.row(row, "")
			}
		}
	}
	send(present.Asked(id, asked))
	var fold present.Turn
	for ev, failed := range c.client.Responses().Events(ctx, id, -1) {
		if failed != nil {
			c.log.Debug("a stream of the console ended", "response", id, "err", failed)
			return // the browser comes back
		}
		if send(fold.Event(ev)); err != nil {
			return
		}
	}
	_ = b.send("ended", "", struct{}{}) // an error means that the browser is gone
}

// taskStream sends what a task prints until it ends.
func (c *Console) taskStream(w http.ResponseWriter, r *http.Request) {
	b := newBrowser(w, c.pages["row"], present.Info)
	before := int64(-1)
	for {
		out, err := c.client.TaskOutput(r.Context(), r.PathValue("id"), r.PathValue("task"), outputTime, 0)
		if err != nil {
			return
		}
		ended := out.Task.ExitStatus != nil || out.RetrievalStatus == "success"
		if out.Task.OutputBytes != before || ended {
			before = out.Task.OutputBytes
			if b.send("output", "", map[string]any{"text": visible.Text(out.Task.OutputPreview),
				"status": out.Task.Status, "ended": ended}) != nil || ended {
				return
			}
		}
	}
}
