package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"holon/responses"
	"holon/responses/turns"
)

// deaf is an Observer that is not interested.
type deaf struct{}

func (deaf) Event(responses.Event)   {}
func (deaf) Fact(turns.RuntimeEvent) {}

// A turn is ended when it has written more than it may since it began. One that follows a turn without tools at once
// counts from the measurement that was made for that one; what a turn with tools wrote does not count for the next.
func TestQuotaOfTurnsInARow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &Session{cfg: Config{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}}
		write := func(name string, bytes int) {
			if err := os.WriteFile(filepath.Join(s.cfg.Dir, name), make([]byte, bytes), 0o600); err != nil {
				t.Error(err)
			}
		}
		for i, step := range []struct {
			what          string
			before, bytes int // written before the turn, and by it
			calls         int // of tools
			pause         time.Duration
			ended         bool
		}{
			{"the first turn", 2 << 20, 4 << 10, 0, 0, false},
			{"a turn right after it", 700 << 10, 700 << 10, 0, 0, true},
			{"a turn after a pause", 700 << 10, 700 << 10, 1, 2 * measurePause, false},
			{"a turn right after one with tools", 700 << 10, 700 << 10, 0, 0, false},
			{"one that writes too much by itself", 0, 2 << 20, 0, time.Minute, true},
		} {
			time.Sleep(step.pause)
			write(fmt.Sprint("before-", i), step.before)
			result := s.watched(t.Context(), Turn{DiskBytes: 1 << 20}, deaf{},
				func(ctx context.Context, w Observer) End {
					write(fmt.Sprint("by-", i), step.bytes)
					select {
					case <-ctx.Done():
					case <-time.After(5 * measurePause / 2):
					}
					payload, err := json.Marshal(turns.Completed{ToolCalls: step.calls})
					w.Fact(turns.RuntimeEvent{Type: turns.TurnCompleted, Payload: payload})
					return End{Err: errors.Join(err, ctx.Err())}
				})
			if ended := result.overQuota != nil; ended != step.ended {
				t.Errorf("%s: ended %t, want %t", step.what, ended, step.ended)
			}
		}
	})
}
