package runner

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"
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
