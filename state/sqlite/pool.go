package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// pool is a pool of connections. Statements that a transaction used are prepared for later ones: SQLite needs more time
// to parse most of them than to run them.
type pool struct {
	*sql.DB
	mu       sync.Mutex
	prepared map[string]*sql.Stmt // by their text
}

// transaction runs fn in a transaction, which is rolled back unless fn commits it, also when it panics. The context
// bounds the wait for a connection, and no statement begins after its end; it does not interrupt one, so that the
// outcome of a commit is always clear.
func (p *pool) transaction(ctx context.Context, t *tx, fn func(*tx) error) error {
	defer func() { p.prepare(t.parsed) }() // when the connection is free
	conn, err := p.Conn(ctx)
	if err != nil {
		return failed("wait for the ledger", err)
	}
	defer conn.Close()
	t.ctx, t.pool = ctx, p
	if t.raw, err = conn.BeginTx(context.WithoutCancel(ctx), nil); err != nil {
		return failed("begin a transaction of the ledger", err)
	}
	defer t.raw.Rollback()
	return fn(t)
}

// prepare prepares statements. One that cannot be prepared is parsed again whenever it is used.
func (p *pool) prepare(texts []string) {
	for _, text := range texts {
		if p.statement(text) != nil {
			continue
		}
		if stmt, err := p.Prepare(text); err == nil {
			p.mu.Lock()
			p.prepared[text] = stmt
			p.mu.Unlock()
		}
	}
}

// statement returns a prepared statement, nil when there is none yet.
func (p *pool) statement(text string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.prepared[text]
}
