package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"holon/test/longlived"
	"holon/test/procs"
	"holon/test/torture/check"
)

// figures are what a soak tells. Times are in milliseconds, sizes in bytes.
type figures struct {
	Seed     uint64  `json:"seed"`
	Agents   int     `json:"agents"`
	Messages int     `json:"messages"` // in the ledger: also ticks and follow-ups
	Turns    int     `json:"turns"`
	Events   int64   `json:"events"`
	Seconds  float64 `json:"seconds"` // from the first message until all agents slept

	Ack   span `json:"acknowledged_ms"`        // from the call to its answer, at the client
	Claim span `json:"admitted_claimed_ms"`    // from admission until an attempt owns the message
	Begin span `json:"claimed_begun_ms"`       // until the turn has begun: container, frame, agentd
	Start span `json:"admitted_begun_ms"`      // both
	Free  span `json:"admitted_begun_free_ms"` // both, of messages that found their agent with nothing to do

	LedgerBytes     int64   `json:"ledger_bytes"`
	BytesPerMessage float64 `json:"ledger_bytes_per_message"`

	IdleServe      float64 `json:"idle_serve_percent"`      // of a core, holon serve and its children
	IdleContainers float64 `json:"idle_containers_percent"` // the containers that are there and their shims
	Containers     int     `json:"idle_containers"`
	Paused         int     `json:"idle_containers_paused"`
	Resident       float64 `json:"serve_resident_bytes"`
	Goroutines     int     `json:"goroutines,omitempty"`
}

// span are percentiles.
type span struct {
	N   int     `json:"n"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

func spanOf(all []float64) span {
	if len(all) == 0 {
		return span{}
	}
	slices.Sort(all)
	at := func(q float64) float64 { return all[min(len(all)-1, int(q*float64(len(all))))] }
	return span{len(all), at(0.5), at(0.99), all[len(all)-1]}
}

func (s span) String() string {
	return fmt.Sprintf("p50 %.1f, p99 %.1f, most %.1f (n = %d)", s.P50, s.P99, s.Max, s.N)
}

// latency tells how long messages took, by what the ledger has of them.
func (f *figures) latency(ctx context.Context, path string, letters []*longlived.Letter) (err error) {
	led, err := check.OpenLedger(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, led.Close()) }()
	ways, err := led.Ways(ctx)
	if err != nil {
		return err
	}
	var claim, begin, start, free, ack []float64
	for _, w := range ways {
		f.Messages++
		if w.Begun.IsZero() {
			continue
		}
		f.Turns++
		claim = append(claim, ms(w.Claimed.Sub(w.Admitted)))
		begin = append(begin, ms(w.Begun.Sub(w.Claimed)))
		start = append(start, ms(w.Begun.Sub(w.Admitted)))
		if w.Free {
			free = append(free, ms(w.Begun.Sub(w.Admitted)))
		}
	}
	for _, l := range letters {
		if l.Acked {
			ack = append(ack, ms(l.Taken))
		}
	}
	f.Claim, f.Begin, f.Start, f.Free, f.Ack = spanOf(claim), spanOf(begin), spanOf(start), spanOf(free), spanOf(ack)
	return nil
}

func ms(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// watch looks at a daemon whose agents sleep.
func (f *figures) watch(ctx context.Context, s *longlived.Server, idle time.Duration) error {
	if err := rest(ctx, 6*time.Second); err != nil { // until containers are held still
		return err
	}
	ids, err := s.Containers(ctx, "")
	if err != nil {
		return err
	}
	serve, contained := procs.Tree(s.PID()), procs.InContainers(ids)
	a, b := procs.Time(serve), procs.Time(contained)
	if err := rest(ctx, idle); err != nil {
		return err
	}
	percent := func(d time.Duration) float64 { return 100 * d.Seconds() / idle.Seconds() }
	f.IdleServe, f.IdleContainers = percent(procs.Time(serve)-a), percent(procs.Time(contained)-b)
	f.Containers, f.Resident = len(ids), procs.Resident(s.PID())
	for _, id := range ids {
		out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Paused}}", id).Output()
		if err == nil && bytes.Equal(bytes.TrimSpace(out), []byte("true")) {
			f.Paused++
		}
	}
	f.Goroutines, err = s.Metric(ctx, "go_goroutines")
	return err
}

func rest(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

// table prints the figures, as Markdown.
func (f *figures) table(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	row := func(what, figure string) { fmt.Fprintf(t, "| %s\t| %s\t|\n", what, figure) }
	row("what", "figure")
	row("---", "---")
	row("agents, messages, turns, events",
		fmt.Sprintf("%d, %d, %d, %d in %.0f s", f.Agents, f.Messages, f.Turns, f.Events, f.Seconds))
	row("a call → its answer, ms", f.Ack.String())
	row("admitted → claimed, ms", f.Claim.String())
	row("claimed → the turn has begun, ms", f.Begin.String())
	row("admitted → the turn has begun, ms", f.Start.String())
	row("the same, of an agent with nothing to do, ms", f.Free.String())
	row("ledger, bytes for each message", fmt.Sprintf("%.0f (%d in all)", f.BytesPerMessage, f.LedgerBytes))
	row("agents asleep: holon serve, percent of a core", strconv.FormatFloat(f.IdleServe, 'f', 2, 64))
	row("agents asleep: containers and shims, percent of a core",
		fmt.Sprintf("%.2f (%d containers, %d held still)", f.IdleContainers, f.Containers, f.Paused))
	row("holon serve, resident", fmt.Sprintf("%.1f MB", f.Resident/1e6))
	if f.Goroutines > 0 {
		row("goroutines", strconv.Itoa(f.Goroutines))
	}
	row("seed", strings.TrimSpace(strconv.FormatUint(f.Seed, 10)))
	return t.Flush()
}
