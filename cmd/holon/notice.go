package main

import (
	"context"
	"io"
	"log/slog"
	"strings"

	"holon/internal/duration"
	"holon/internal/visible"
)

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
