package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"holon/internal/bridge"
	"holon/internal/transfer"
	"holon/runner/engine"
	enginelink "holon/runner/engine/link"
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

// unmeasured is an engine whose containers cannot be measured: what serves that ends at once, or the stream does and
// no other can be made.
type unmeasured struct {
	engine.Engine
	engine.Linker
	err   error // of another stream
	execs *atomic.Int32
}

func (u unmeasured) Exec(context.Context, engine.Handle, engine.User, []string) (io.ReadWriteCloser, error) {
	if u.execs.Add(1) > 1 {
		return nil, u.err
	}
	here, there := net.Pipe()
	if u.err != nil {
		return here, there.Close()
	}
	b, err := bridge.New(there, bridge.Side{Serve: map[string]func(context.Context, io.ReadWriter){
		transfer.Service: func(context.Context, io.ReadWriter) {}}}, false)
	go func() { _ = b.Run(context.Background()) }()
	return here, err
}

func (unmeasured) Inspect(context.Context, engine.Handle) (engine.State, error) {
	return engine.State{}, nil
}

// A turn whose container cannot be measured is ended, unless only the engine does not answer.
func TestQuotaThatCannotBeMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		err   error
		ended Code
	}{
		"the helper ends":       {nil, codeUnmeasured},
		"no command can be run": {&Error{Code: engine.CodeFailed}, codeUnmeasured},
		"the engine is away":    {&Error{Code: engine.CodeUnreachable}, ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			eng := unmeasured{err: tc.err, execs: new(atomic.Int32)}
			l, err := enginelink.Join(t.Context(), eng, engine.Handle{}, engine.Spec{})
			expect.NoError(t, err)
			s := &Session{handle: engine.Handle{Link: engine.LinkStream}, link: link{conn: l,
				files: enginelink.Open(eng, engine.Handle{}, l, false, "")},
				cfg: Config{Log: slog.New(slog.DiscardHandler), Engine: eng}}
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
			expect.Equal(t, name, ended, tc.ended)
			s.link.files.Close()
			expect.NoError(t, l.Close())
		})
	}
}
