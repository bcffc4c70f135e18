package postgres

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// channel is that of notifications: the payload names the process that has committed, and then the agents with new
// events.
const channel = "holon"

// maxPayload bounds a payload; the server takes no more than 8000 bytes.
const maxPayload = 7900

// payload is that of a commit, "" when no agent has new events. One that names no agent is about all of them.
func (h *holder) payload(changed []string) string {
	if len(changed) == 0 {
		return ""
	}
	if text := h.id + " " + strings.Join(changed, " "); len(text) <= maxPayload {
		return text
	}
	return h.id
}

// attend renews the holding, looks for others that are gone, and announces what others commit, until ctx ends.
// announce has no agent when any may have changed.
func (h *holder) attend(ctx context.Context, config *pgx.ConnConfig, announce func(agents ...string)) {
	for known := ""; ctx.Err() == nil; {
		err := h.attendOnce(ctx, config, announce)
		if ctx.Err() != nil {
			return
		}
		h.trouble(failed("renew the lease of this holon serve", err))
		if text := err.Error(); text != known { // and not once a second
			known = text
			h.log.Warn("the lease of this holon serve cannot be renewed now; trying again", "err", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
	}
}

// attendOnce is attend on one connection, until that breaks.
func (h *holder) attendOnce(ctx context.Context, config *pgx.ConnConfig, announce func(agents ...string)) error {
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second) // the end of a connection is short
		defer cancel()
		_ = conn.Close(ctx)
	}()
	for first := true; ; first = false {
		if err := h.look(ctx, conn, first); err != nil {
			return err
		}
		h.trouble(nil)
		if first || h.shared() { // notifications may have been missed; this is the poll behind them
			announce()
		}
		if err := h.listen(ctx, conn, announce); err != nil {
			return err
		}
	}
}

// look renews the holding and evicts others that are gone.
func (h *holder) look(ctx context.Context, conn *pgx.Conn, first bool) error {
	ctx, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	if first {
		if err := h.sameHistory(ctx, conn); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, "LISTEN "+channel); err != nil {
			return err
		}
	}
	inTime, err := h.renew(ctx, conn)
	if err == nil && h.shared() {
		err = h.evict(ctx, conn, inTime)
	}
	return err
}

func (h *holder) shared() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.others > 0
}

// listen announces what others commit until it is time to renew.
func (h *holder) listen(ctx context.Context, conn *pgx.Conn, announce func(agents ...string)) error {
	until, cancel := context.WithTimeout(ctx, renewEvery)
	defer cancel()
	for {
		n, err := conn.WaitForNotification(until)
		if until.Err() != nil && !conn.IsClosed() {
			return ctx.Err()
		}
		if err != nil {
			return fmt.Errorf("listen for notifications: %w", err)
		}
		if by, agents, _ := strings.Cut(n.Payload, " "); by != h.id {
			announce(strings.Fields(agents)...)
		}
	}
}
