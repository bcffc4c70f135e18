package postgres

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"holon/state/ledger"
	"holon/test/expect"
	"holon/test/postgrestest"
)

// cut is where a proxy ends a connection.
type cut int32

const (
	never cut = iota
	before
	after
)

// syncs is the message with which a client asks for the answers of a batch.
var syncs = []byte("S\x00\x00\x00\x04")

// proxy passes connections on to a server, and counts batches. It ends the connection of the batch with the number at,
// before the server gets that batch or after the server has answered it.
type proxy struct{ next, at, batches atomic.Int32 }

// cutNext cuts the connection at the nth batch from now on.
func (p *proxy) cutNext(where cut, n int32) {
	p.at.Store(p.batches.Load() + n)
	p.next.Store(int32(where))
}

// through opens a new ledger through a proxy.
func through(t *testing.T, server *postgrestest.Server) (*Store, *proxy) {
	t.Helper()
	dir, err := os.MkdirTemp("", "px")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	expect.NoError(t, err)
	p := new(proxy)
	var all sync.WaitGroup
	all.Go(func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("unix", server.Socket())
			if err != nil {
				_ = client.Close()
				continue
			}
			all.Go(func() { p.pass(client, upstream) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); all.Wait() })
	to, err := url.Parse(server.Database(t))
	expect.NoError(t, err)
	to.RawQuery = url.Values{"host": {dir}}.Encode()
	s, err := Open(t.Context(), Options{URL: to.String(), unattended: true})
	expect.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s, p
}

func (p *proxy) pass(client, upstream net.Conn) {
	var answers sync.WaitGroup
	var ending atomic.Bool // the next answer is lost
	answers.Go(func() {
		defer client.Close()
		buffer := make([]byte, 64<<10)
		for {
			n, err := upstream.Read(buffer)
			if err != nil || ending.Load() {
				return
			}
			if _, err := client.Write(buffer[:n]); err != nil {
				return
			}
		}
	})
	defer answers.Wait()
	defer upstream.Close()
	buffer := make([]byte, 64<<10)
	for {
		n, err := client.Read(buffer)
		if err != nil {
			return
		}
		sent := p.batches.Add(int32(bytes.Count(buffer[:n], syncs)))
		if p.next.Load() != int32(never) && sent >= p.at.Load() {
			switch cut(p.next.Swap(int32(never))) {
			case before:
				_ = client.Close()
				return
			case after:
				ending.Store(true)
			}
		}
		if _, err := io.Copy(upstream, bytes.NewReader(buffer[:n])); err != nil {
			return
		}
	}
}

// An update whose commit got no answer ends as the database knows it: nothing is lost, and nothing is done twice.
func testLostAnswer(t *testing.T, server *postgrestest.Server) {
	s, p := through(t, server)
	for range 2 { // the first time statements are prepared
		expect.NoError(t, s.Update(t.Context(), tell))
	}
	changed := s.Changed("a")

	p.cutNext(after, 2) // the second batch of tell commits
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "the proxy did nothing", cut(p.next.Load()), never)
	expect.Equal(t, "events after a commit whose answer was lost", newest(t, s), 3)
	select {
	case <-changed:
	default:
		t.Error("watchers were not notified")
	}

	expect.NoError(t, s.Update(t.Context(), tell)) // on a new connection
	p.cutNext(before, 2)
	wantCode(t, s.Update(t.Context(), tell), ledger.CodeLedgerAway)
	expect.Equal(t, "events after a commit that was lost", newest(t, s), 4)
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events at the end", newest(t, s), 5)
}

// What an update said that it reads is read in one batch, and what it wrote of that since is read in another one, with
// what was written.
func testTogether(t *testing.T, server *postgrestest.Server) {
	s, p := through(t, server)
	read := func(v ledger.View) (text string) {
		l, err := v.AgentState("a")
		_, queued, _ := v.Head("a")
		n, _ := v.CountQueued("a")
		return fmt.Sprint(l.EventSeq, queued, n, err != nil)
	}
	expect.NoError(t, s.Update(t.Context(), tell))
	for n := range int64(2) { // the first time statements are prepared
		look := func(tx ledger.Tx, want string, batches int32) {
			before := p.batches.Load()
			expect.Equal(t, "read", read(tx.View), want)
			if n > 0 {
				expect.Equal(t, "batches", p.batches.Load()-before, batches)
			}
		}
		expect.NoError(t, s.Update(t.Context(), func(tx ledger.Tx) error {
			tx.Rows.Ahead(func() { read(tx.View) })
			look(tx, fmt.Sprint(1, n > 0, n, false), 1)
			look(tx, fmt.Sprint(1, n > 0, n, false), 0)
			if n > 0 { // what was listed is not read again
				before := p.batches.Load()
				_, err := tx.Entry("msg_0")
				expect.NoError(t, err)
				expect.Equal(t, "batches for an entry that was read", p.batches.Load()-before, 0)
			}
			id := fmt.Sprint("msg_", n)
			expect.NoError(t, tx.Insert(&ledger.Message{ID: id, AgentID: "a", Number: n},
				&ledger.Entry{MessageID: id, AgentID: "a", Number: n, Status: ledger.Queued}))
			look(tx, fmt.Sprint(1, true, n+1, false), 1)
			look(tx, fmt.Sprint(1, true, n+1, false), 0)
			return nil
		}))
	}
}
