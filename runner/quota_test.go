package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"holon/runner/engine"
	"holon/test/expect"
)

// A turn is ended when it has written more than it may since it began; what turns before it wrote does not count.
func TestQuotaOfTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{cfg: Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}
		for i, step := range []struct {
			bytes int
			ended bool
		}{{700 << 10, false}, {700 << 10, false}, {2 << 20, true}, {4 << 10, false}} {
			result := s.watched(t.Context(), Turn{bounds: bounds{DiskBytes: 1 << 20}},
				func(ctx context.Context) End {
					err := os.WriteFile(filepath.Join(s.cfg.Dir, fmt.Sprint(i)), make([]byte, step.bytes), 0o600)
					select {
					case <-ctx.Done():
					case <-time.After(5 * measurePause / 2):
					}
					return End{Err: errors.Join(err, ctx.Err())}
				})
			if ended := result.stopped != nil; ended != step.ended {
				t.Errorf("turn %d: ended %t, want %t", i, ended, step.ended)
			}
		}
	})
}

// unmeasured is an engine whose containers cannot be measured.
type unmeasured struct {
	engine.Engine
	engine.Linker
	err  error
	late bool // the stream says it
}

func (u unmeasured) Exec(context.Context, engine.Handle, engine.User, []string) (io.ReadWriteCloser, error) {
	if !u.late {
		return nil, u.err
	}
	r, w := io.Pipe()
	return struct {
		io.ReadCloser
		io.Writer
	}{r, w}, w.CloseWithError(u.err)
}

// A turn whose container cannot be measured is ended, unless only the engine does not answer.
func TestQuotaThatCannotBeMeasured(t *testing.T) {
	for _, tc := range []struct {
		code  Code
		late  bool
		ended Code
	}{{engine.CodeFailed, false, codeUnmeasured}, {engine.CodeFailed, true, codeUnmeasured},
		{engine.CodeUnreachable, false, ""}, {engine.CodeUnreachable, true, ""}} {
		synctest.Test(t, func(t *testing.T) {
			s := &Session{handle: engine.Handle{Link: engine.LinkStream},
				cfg: Config{Log: slog.New(slog.DiscardHandler), Engine: unmeasured{err: &Error{Code: tc.code}, late: tc.late}}}
			result := s.watched(t.Context(), Turn{bounds: bounds{DiskBytes: 1 << 20}}, func(ctx context.Context) End {
				select {
				case <-ctx.Done():
				case <-time.After(2 * maxUnmeasured * measurePause):
				}
				return End{Err: ctx.Err()}
			})
			ended := Code("")
			if result.stopped != nil {
				ended = result.stopped.Code
			}
			expect.Equal(t, string(tc.code), ended, tc.ended)
		})
	}
}
