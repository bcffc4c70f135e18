package main

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"holon/test/load"
	"holon/test/postgrestest"
	"holon/test/torture/check"
)

// Of a round of processes that share a ledger: processes, agents, and the time between two kills.
const (
	sharing         = 3
	sharedAgents    = 30
	betweenKills    = 10 * time.Second
	betweenShared   = time.Second // letters
	longerThanLease = 25 * time.Second
	sharedPatience  = 10 * time.Minute
)

// playShared lets three holon serve share a ledger, and kills one after another, which comes back later, while agents
// work; at last one hangs until others have its agents, and ends when it goes on. No message is lost or taken twice, no
// result is lost, and no turn is begun twice.
func playShared(ctx context.Context, r *round) {
	database := load.Must(postgrestest.Make("fsync=off"))
	r.later(database.Close)
	url := load.Must(database.Create(ctx, "template1"))
	servers := r.startShared(ctx, url)
	var agents []string
	for n := range sharedAgents {
		agents = append(agents, fmt.Sprintf("agent-%02d", n))
		load.Check(servers[n%sharing].Create(ctx, agents[n]))
	}
	var letters []*load.Letter
	err := load.Guard(func() {
		letters = r.writeWhile(ctx, servers, agents, func() { r.killInTurn(ctx, servers) })
		r.inspectShared(ctx, url, servers[0], agents, letters)
	})
	if err != nil {
		for _, s := range servers {
			err = fmt.Errorf("%w\n%s", err, s.Tail())
		}
		load.Check(err)
	}
	load.Check(load.Eventually(ctx, load.Patience, func() error {
		most := (sharedAgents+1+sharing-1)/sharing + 1 // with the default agent, and the sessions
		if _, _, by := figures(ctx, url); len(by) != sharing || slices.Max(by) > most {
			return fmt.Errorf("%d processes have %v agents: one has more than its share", len(by), by)
		}
		return nil
	}))
	acked := slices.DeleteFunc(slices.Clone(letters), func(l *load.Letter) bool { return !l.Acked })
	turns, lost, by := figures(ctx, url)
	r.turns += turns
	r.note("kills, letters, acknowledged", "%d, %d, %d", r.lab.kills, len(letters), len(acked))
	r.note("turns, of which ended with their process; agents by process", "%d, %d; %v", turns, lost, by)
}

// writeWhile sends letters through all processes until job has returned.
func (r *round) writeWhile(ctx context.Context, servers []*load.Server, agents []string, job func()) (
	letters []*load.Letter) {
	sending, stop := context.WithCancel(ctx)
	defer stop()
	var writer, senders sync.WaitGroup
	var mu sync.Mutex
	var failed error
	writer.Go(func() {
		for n := 0; load.Pause(sending, betweenShared) == nil; n++ {
			l := &load.Letter{Agent: one(r, agents...), Key: fmt.Sprintf("letter-%04d", n), Word: load.Run,
				Way:   one(r, load.Prompt, load.Enqueue, load.Webhook, load.Timer),
				After: r.upTo(300*time.Millisecond) + 50*time.Millisecond}
			letters = append(letters, l)
			through := one(r, servers...)
			senders.Go(func() {
				err := through.Send(ctx, l)
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			})
		}
	})
	err := load.Guard(job)
	stop()
	writer.Wait()
	senders.Wait()
	load.Check(errors.Join(err, failed))
	return letters
}

func (r *round) killInTurn(ctx context.Context, servers []*load.Server) {
	for n := range r.lab.kills {
		pause(ctx, betweenKills/2)
		victim := servers[n%sharing]
		r.struck("kill -9 of a holon serve")
		victim.Kill()
		pause(ctx, betweenKills/2)
		load.Check(victim.Start(ctx))
	}
	hung := servers[0]
	r.struck("a holon serve hangs for longer than its lease")
	hung.Signal(syscall.SIGSTOP)
	pause(ctx, longerThanLease)
	hung.Signal(syscall.SIGCONT)
	if code, err := hung.Wait(); err != nil || code != 1 {
		load.Failf("one that hung and went on ended with code %d (%v), want 1", code, err)
	}
	load.Check(hung.Start(ctx))
}

func (r *round) startShared(ctx context.Context, url string) (servers []*load.Server) {
	for n := range sharing {
		dir := r.path(fmt.Sprint(n))
		load.Check(os.Mkdir(dir, 0o700))
		o := load.Options{Dir: dir, Env: []string{r.mark, "HOLON_LEDGER=" + url, "HOLON_LINK=" + r.lab.link,
			"HOLON_MAX_CONTAINERS=4", "HOLON_IDLE_STOP=2s"}}
		if n > 0 {
			o.Beside, o.Model = servers[0], servers[0].Model()
		}
		s := load.Must(load.New(o))
		servers = append(servers, s)
		if n == 0 {
			r.later(func() error { return load.RemoveContainers(s.Home) })
		}
		r.later(func() error { s.Close(); return nil })
		load.Check(s.Start(ctx))
	}
	return servers
}

// inspectShared waits until nothing is to be done, and checks everything.
func (r *round) inspectShared(ctx context.Context, url string, s *load.Server, agents []string,
	letters []*load.Letter) {
	err := load.Eventually(ctx, sharedPatience, func() error { return quietAfterCopy(ctx, url, s.Ledger()) })
	if err != nil {
		load.Failf("wait until every agent is idle: %w", err)
	}
	load.Must(s.Verify(ctx, agents, letters))
	led := load.Must(check.OpenLedger(s.Ledger()))
	load.Check(errors.Join(led.Sound(ctx), led.Lawful(ctx), led.Recorded(ctx), led.Close()))
}

// figures are turns, those that were lost, and how many agents each process has.
func figures(ctx context.Context, url string) (turns, lost int, by []int) {
	db := load.Must(sql.Open("pgx", url))
	defer db.Close()
	load.Check(db.QueryRowContext(ctx, "SELECT count(*), count(*) FILTER (WHERE data::json ->> 'lost' = 'true') "+
		"FROM turns").Scan(&turns, &lost))
	rows := load.Must(db.QueryContext(ctx, "SELECT count(*) FROM leases GROUP BY holder"))
	defer rows.Close()
	for rows.Next() {
		var n int
		load.Check(rows.Scan(&n))
		by = append(by, n)
	}
	load.Check(rows.Err())
	return turns, lost, by
}
