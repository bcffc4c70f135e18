package postgres

import (
	"bytes"
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

// commits is the message with which a client commits.
var commits = []byte("commit\x00")

// proxy passes connections on to a server. It ends the next one that commits, before the server gets that message or
// after the server has answered it.
func proxy(t *testing.T, server *postgrestest.Server) (dir string, next *atomic.Int32) {
	t.Helper()
	dir, err := os.MkdirTemp("", "px")
	expect.NoError(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	listener, err := net.Listen("unix", filepath.Join(dir, ".s.PGSQL.5432"))
	expect.NoError(t, err)
	next = new(atomic.Int32)
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
			all.Go(func() { pass(client, upstream, next) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); all.Wait() })
	return dir, next
}

func pass(client, upstream net.Conn, next *atomic.Int32) {
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
		if bytes.Contains(buffer[:n], commits) {
			switch cut(next.Swap(int32(never))) {
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
	dir, next := proxy(t, server)
	through, err := url.Parse(server.Database(t))
	expect.NoError(t, err)
	through.RawQuery = url.Values{"host": {dir}}.Encode()
	s := openAt(t, through.String())
	defer s.Close()
	expect.NoError(t, s.Update(t.Context(), tell))
	changed := s.Changed("a")

	next.Store(int32(after))
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "the proxy did nothing", cut(next.Load()), never)
	expect.Equal(t, "events after a commit whose answer was lost", newest(t, s), 2)
	select {
	case <-changed:
	default:
		t.Error("watchers were not notified")
	}

	next.Store(int32(before))
	wantCode(t, s.Update(t.Context(), tell), ledger.CodeLedgerAway)
	expect.Equal(t, "events after a commit that was lost", newest(t, s), 2)
	expect.NoError(t, s.Update(t.Context(), tell))
	expect.Equal(t, "events at the end", newest(t, s), 3)
}
