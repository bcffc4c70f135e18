package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
)

// Bounds of what a server may take, unless the URL has others. The server ends a statement by itself before the client
// stops waiting for it, and so it does with a transaction whose client is silent, which holds up all other writers.
const (
	connectWithin   = 10 * time.Second
	pingWithin      = 2 * time.Second
	beginWithin     = 6 * time.Second // of what waits for a connection, too
	statementWithin = 10 * time.Second
	lockWithin      = 8 * time.Second
	heldWithin      = 2 * time.Second // likewise, of the lock of a ledger that is opened
	silentClient    = 5 * time.Second
	answerWithin    = 15 * time.Second
)

// bound gives the connections of a configuration these bounds. within is how long an answer may take, 0 for
// answerWithin.
func bound(config *pgx.ConnConfig, within time.Duration) {
	within = cmp.Or(within, answerWithin)
	// Statements are few, and each has its index. A plan that is made for a table without statistics would read all of it
	// for ever.
	for key, value := range map[string]string{"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off",
		"enable_bitmapscan": "off"} {
		if _, given := config.RuntimeParams[key]; !given {
			config.RuntimeParams[key] = value
		}
	}
	for key, limit := range map[string]time.Duration{"statement_timeout": statementWithin, "lock_timeout": lockWithin} {
		if _, given := config.RuntimeParams[key]; !given {
			config.RuntimeParams[key] = milliseconds(limit)
		}
	}
	config.AfterNetConnect = func(_ context.Context, _ *pgconn.Config, c net.Conn) (net.Conn, error) {
		return &boundedConn{Conn: c, within: within}, nil
	}
}

// ping asks whether a connection that was idle still has its server, which answers at once. true lets the driver see
// that it has not.
func ping(ctx context.Context, p stdlib.ShouldPingParams) bool {
	if p.IdleDuration < time.Second {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, pingWithin)
	defer cancel()
	return p.Conn.Ping(ctx) != nil
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) }

// boundedConn is a connection that breaks when its peer is silent for too long: a server that was stopped, or a host
// that is gone, must not hold up a request for ever. A transaction has no context that could do it, for the outcome of
// a commit has to stay clear. Nothing reads while no answer is expected.
type boundedConn struct {
	net.Conn
	within time.Duration

	mu          sync.Mutex
	read, write time.Time // deadlines that the driver has set; zero: none
}

func (c *boundedConn) Read(b []byte) (int, error) {
	if err := c.arm(&c.read, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Read(b)
	return n, c.silent(err, &c.read)
}

func (c *boundedConn) Write(b []byte) (int, error) {
	if err := c.arm(&c.write, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	n, err := c.Conn.Write(b)
	return n, c.silent(err, &c.write)
}

// arm sets the deadline of one call: that of the driver, or the bound if it is earlier.
func (c *boundedConn) arm(set *time.Time, arm func(time.Time) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	until := time.Now().Add(c.within)
	if !set.IsZero() && set.Before(until) {
		until = *set
	}
	return arm(until)
}

// silent breaks the connection if err is that the bound has passed, and not a deadline of the driver.
func (c *boundedConn) silent(err error, set *time.Time) error {
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	c.mu.Lock()
	ofDriver := !set.IsZero() && !set.After(time.Now())
	c.mu.Unlock()
	if ofDriver {
		return err
	}
	return errors.Join(fmt.Errorf("no answer within %v: %w", c.within, io.ErrUnexpectedEOF), c.Close())
}

func (c *boundedConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

func (c *boundedConn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.read = t
	return c.Conn.SetReadDeadline(t)
}

func (c *boundedConn) SetWriteDeadline(t time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.write = t
	return c.Conn.SetWriteDeadline(t)
}
