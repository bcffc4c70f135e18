package egress_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/egress"
	"holon/test/expect"
)

// Each attack is refused, for the reason that it should be, is on record, and
// nothing of it has left the host.
func TestAttacks(t *testing.T) {
	t.Parallel()
	names := map[string][][]netip.Addr{
		"example.com.": {addrs(public)}, "a.example.org.": {addrs(public)},
		"private.example.org.": {addrs("10.0.0.7")}, "loopback.example.org.": {addrs("127.0.0.1")},
		"metadata.example.org.": {addrs("169.254.169.254")}, "mapped.example.org.": {addrs("::ffff:127.0.0.1")},
		"mixed.example.org.": {addrs(public, "192.168.1.1")}, "ula.example.org.": {addrs("fd00:ec2::254")},
		"nat64.example.org.": {addrs("64:ff9b::a9fe:a9fe")}, "empty.example.org.": {{}},
	}
	connect := func(target string) string { return "CONNECT " + target + " HTTP/1.1\r\nHost: " + target + "\r\n\r\n" }
	get := func(target string, fields ...string) string {
		return "GET " + target + " HTTP/1.1\r\n" +
			strings.Join(fields, "\r\n") + strings.Repeat("\r\n", min(len(fields), 1)) + "\r\n"
	}
	ports := map[string]int{"another port": 8443, "ssh": 22, "CONNECT to 80": 80, "CONNECT without a port": 0,
		"plain HTTP on another port": 8080, "plain HTTP on 443": 443, "padded port": 0, "another Host": 80}
	for _, tc := range []struct{ name, raw, status, reason string }{
		{"host that is not listed", connect("evil.net:443"), "403", "host_not_allowed"},
		{"suffix", connect("evilexample.com:443"), "403", "host_not_allowed"},
		{"prefix", connect("example.com.evil.net:443"), "403", "host_not_allowed"},
		{"below an exact entry", connect("www.example.com:443"), "403", "host_not_allowed"},
		{"apex of a wildcard", connect("example.org:443"), "403", "host_not_allowed"},
		{"NUL", connect("example.com\x00.evil.net:443"), "400", "request_malformed"},
		{"escaped NUL", connect("example.com%00.evil.net:443"), "400", "request_malformed"},
		{"user name", connect("example.com@evil.net:443"), "400", "host_malformed"},
		{"user name in a URL", get("http://example.com@evil.net/"), "400", "host_malformed"},
		{"backslash", get("http://evil.net\\@example.com/"), "400", "request_malformed"},
		{"homograph", connect("xn--exmple-cua.com:443"), "403", "host_not_allowed"},
		{"not ASCII", connect("ｅxample.com:443"), "400", "host_malformed"},
		{"loopback by number", connect("127.0.0.1:443"), "403", "host_not_allowed"},
		{"short form", connect("127.1:443"), "400", "host_malformed"},
		{"decimal", connect("2130706433:443"), "400", "host_malformed"},
		{"hexadecimal", get("http://0x7f.1/"), "400", "host_malformed"},
		{"octal", get("http://0177.0.0.1/"), "400", "host_malformed"},
		{"IPv6 loopback", connect("[::1]:443"), "403", "host_not_allowed"},
		{"mapped", connect("[::ffff:127.0.0.1]:443"), "400", "host_malformed"},
		{"zone", connect("[fe80::1%eth0]:443"), "400", "request_malformed"},
		{"localhost", connect("localhost:443"), "400", "host_malformed"},
		{"metadata by number", get("http://169.254.169.254/latest/meta-data/"), "403", "host_not_allowed"},
		{"metadata by its name", get("http://metadata.google.internal/"), "403", "host_not_allowed"},
		{"address of an allowed host", connect(public + ":443"), "403", "host_not_allowed"},
		{"name of a private address", connect("private.example.org:443"), "403", "address_not_public"},
		{"name of loopback", get("http://loopback.example.org/"), "403", "address_not_public"},
		{"name of metadata", get("http://metadata.example.org/latest/"), "403", "address_not_public"},
		{"name of a mapped address", connect("mapped.example.org:443"), "403", "address_not_public"},
		{"one private address of two", connect("mixed.example.org:443"), "403", "address_not_public"},
		{"name of a unique local address", connect("ula.example.org:443"), "403", "address_not_public"},
		{"metadata behind NAT64", connect("nat64.example.org:443"), "403", "address_not_public"},
		{"name that is none", connect("nothing.example.org:443"), "502", "not_resolved"},
		{"name without an address", connect("empty.example.org:443"), "502", "not_resolved"},
		{"another port", connect("example.com:8443"), "403", "port_not_allowed"},
		{"ssh", connect("example.com:22"), "403", "port_not_allowed"},
		{"CONNECT to 80", connect("example.com:80"), "403", "port_not_allowed"},
		{"CONNECT without a port", connect("example.com"), "403", "port_not_allowed"},
		{"padded port", connect("example.com:0443"), "403", "port_not_allowed"},
		{"two ports", connect("example.com:80:443"), "400", "request_malformed"},
		{"plain HTTP on another port", get("http://example.com:8080/"), "403", "port_not_allowed"},
		{"plain HTTP on 443", get("http://example.com:443/"), "403", "port_not_allowed"},
		{"https without CONNECT", get("https://example.com/"), "403", "scheme_not_allowed"},
		{"ftp", get("ftp://example.com/"), "403", "scheme_not_allowed"},
		{"a file", get("file:///etc/passwd"), "403", "scheme_not_allowed"},
		{"a request to the proxy itself", get("/", "Host: example.com"), "400", "request_malformed"},
		{"another Host", get("http://example.com/", "Host: evil.net"), "400", "host_mismatch"},
		{"another Host in CONNECT", "CONNECT example.com:443 HTTP/1.1\r\nHost: evil.net\r\n\r\n", "400",
			"host_mismatch"},
		{"Host with another port", get("http://example.com/", "Host: example.com:8080"), "400", "host_mismatch"},
		{"two Hosts", get("http://example.com/", "Host: example.com", "Host: evil.net"), "400", "request_malformed"},
		{"length and chunks", "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: " +
			"4\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", "400", "request_malformed"},
		{"two lengths", "POST http://example.com/ HTTP/1.1\r\nHost: example.com\r\nContent-Length: " +
			"4\r\nContent-Length: 0\r\n\r\nabcd", "400", "request_malformed"},
		{"bare line feeds", "GET http://example.com/ HTTP/1.1\nHost: example.com\n\nX: \r\n\r\n", "400",
			"request_malformed"},
		{"CONNECT with a body", "CONNECT example.com:443 HTTP/1.1\r\nHost: example.com:443\r\nContent-Length: " +
			"4\r\n\r\nabcd", "400", "request_malformed"},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "400", "request_malformed"},
		{"a head that is too large", get("http://example.com/", "X: "+strings.Repeat("x", 40<<10)), "400",
			"request_malformed"},
		{"half a head", "GET http://example.com/ HT", "400", "request_malformed"},
		{"terminal escapes", connect("\x1b]0;owned\x07.example.org:443"), "400", "request_malformed"},
		{"line feed in the name", connect("a.example.org\nX: y:443"), "400", "request_malformed"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, names, "example.com", "*.example.org")
			conn := r.dial()
			go func() {
				_, _ = io.WriteString(conn, tc.raw)
				_ = conn.(*net.UnixConn).CloseWrite()
			}()
			answer, err := io.ReadAll(conn)
			if err != nil {
				t.Error(err)
			}
			expect.Equal(t, "status", status(string(answer)), tc.status+" Egress refused: "+tc.reason)
			if bytes.ContainsAny(answer, "\x00\x1b\x07") || bytes.Contains(answer, []byte("10.9.8.7")) {
				t.Errorf("the answer has what it should not: %q", answer)
			}
			facts := r.close()
			if len(facts) != 1 || facts[0].Decision == nil || facts[0].Decision.Verdict != "denied" ||
				facts[0].Decision.Reason != tc.reason {
				t.Errorf("recorded: %q", decisions(facts))
			} else if asked, listed := ports[tc.name]; listed && facts[0].Decision.Port != asked {
				t.Errorf("recorded port %d, want the one that was asked for: %d", facts[0].Decision.Port, asked)
			} else if text := facts[0].Decision.Host + facts[0].Decision.Detail; strings.ContainsFunc(text,
				func(r rune) bool {
					return r < ' ' || r > '~'
				}) || len(text) > 400 {
				t.Errorf("recorded: %q", text)
			}
			if len(r.net.dials()) > 0 {
				t.Errorf("dialled %v", r.net.dials())
			}
		})
	}
}

// A tunnel carries TLS for its host, or nothing.
func TestTunnelIsJudged(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, reason string
		speak        func(conn net.Conn) error
	}{
		{"another SNI", "sni_mismatch", func(conn net.Conn) error {
			return tls.Client(conn, &tls.Config{ServerName: "evil.net"}).Handshake()
		}},
		{"no SNI", "sni_mismatch", func(conn net.Conn) error {
			return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).Handshake()
		}},
		{"no TLS", "not_tls", func(conn net.Conn) error {
			_, err := io.WriteString(conn, "GET /large HTTP/1.1\r\nHost: evil.net\r\n\r\n")
			return err
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRig(t, worldWide, "example.com")
			conn, in := r.tunnel("example.com:443")
			err := tc.speak(conn)
			rest, _ := io.ReadAll(in) // reset or not
			if tls13 := err != nil && strings.Contains(err.Error(), "access denied"); !tls13 &&
				!bytes.Equal(rest, []byte{21, 3, 3, 0, 2, 2, 49}) {
				t.Errorf("the client sees %v, %q", err, rest)
			}
			facts := r.close()
			if got := decisions(facts); !slices.Equal(got,
				[]string{"allowed listed example.com", "denied " + tc.reason + " example.com"}) {
				t.Errorf("decisions: %q", got)
			}
			e := ends(facts)
			if len(e) != 1 {
				t.Fatalf("ends: len(e) = %d (%+v), want 1", len(e), e)
			}
			expect.Equal(t, "ends: e[0].BytesSent", e[0].BytesSent, 0)
			expect.Equal(t, "ends: e[0].Error", e[0].Error, tc.reason)
		})
	}
}

// A client behind the proxy meets the alert as one, not as a broken network.
func TestOtherNameByClient(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	if _, err := r.get(r.client("other.example.org"), "https://example.com/"); err == nil ||
		!strings.Contains(err.Error(), "access denied") {
		t.Errorf("%v", err)
	}
	if len(r.asked.all()) > 0 {
		t.Error("the host was asked")
	}
}

// A name that changes its address between questions is judged each time, and what
// is dialled is what was judged.
func TestRebinding(t *testing.T) {
	t.Parallel()
	r := newRig(t, map[string][][]netip.Addr{"example.com.": {addrs(public), addrs("127.0.0.1"),
		addrs("169.254.169.254"), addrs(public)}}, "example.com")
	var got []string
	for range 4 {
		text, err := r.get(r.client(""), "http://example.com/")
		expect.NoError(t, err)
		got = append(got, text[:3])
	}
	if !slices.Equal(got, []string{"200", "403", "403", "200"}) {
		t.Errorf("answers: %v", got)
	}
	if dials := r.net.dials(); !slices.Equal(dials, []string{public + ":80", public + ":80"}) {
		t.Errorf("dialled %v", dials)
	}
}

// The proxy reads nothing that follows a request on the same connection, to any host.
func TestPipelined(t *testing.T) {
	t.Parallel()
	const second = "GET http://other.example.org/second HTTP/1.1\r\nHost: other.example.org\r\n\r\n"
	for name, first := range map[string]string{
		"no body": "GET http://example.com/first HTTP/1.1\r\nHost: example.com\r\n\r\n",
		"a body": "POST http://example.com/first HTTP/1.1\r\nHost: example.com\r\nContent-Length: " +
			"4\r\n\r\nbody",
		"chunks": "POST http://example.com/first HTTP/1.1\r\nHost: example.com\r\nTransfer-Encoding: " +
			"chunked\r\n\r\n4\r\nbody\r\n0\r\n\r\n",
		"kept alive": "GET http://example.com/first HTTP/1.1\r\nHost: example.com\r\nConnection: " +
			"keep-alive\r\nProxy-Connection: keep-alive\r\n\r\n",
		"a named header": "GET http://example.com/first HTTP/1.1\r\nHost: example.com\r\nConnection: " +
			"X-Secret\r\nX-Secret: s\r\nProxy-Authorization: Basic c2VjcmV0\r\nUpgrade: h2c\r\nHTTP2-Settings: " +
			"AAMAAABk\r\n\r\n",
		"it waits for it": "POST http://example.com/first HTTP/1.1\r\nHost: example.com\r\nExpect: " +
			"100-continue\r\nContent-Length: 4\r\n\r\nbody",
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, worldWide, "example.com")
			answer := r.say(first + second)
			expect.Equal(t, "answers with 200",
				strings.Count(answer, "HTTP/1.1 200 OK"), 1)
			if strings.Contains(answer, "second") {
				t.Errorf(`answer: answer = %q, want it without "second"`, answer)
			}
			expect.Contains(t, "answer", answer, "Connection: close")
			asked := r.asked.all()
			if len(asked) != 1 || asked[0].URL.Path != "/first" {
				t.Fatalf("asked: %+v", asked)
			}
			for _, field := range []string{"X-Secret", "Proxy-Authorization", "Upgrade", "Http2-Settings",
				"Proxy-Connection", "Expect"} {
				expect.Equal(t, "the host was sent", asked[0].Header.Get(field), "")
			}
			if got := decisions(r.close()); !slices.Equal(got, []string{"allowed listed example.com"}) {
				t.Errorf("decisions: %q", got)
			}
		})
	}
}

// A host that answers with an upgrade gets none.
func TestUpgrade(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	answer := r.say("GET http://example.com/upgrade HTTP/1.1\r\nHost: example.com\r\nConnection: " +
		"Upgrade\r\nUpgrade: other\r\n\r\n")
	if !strings.HasPrefix(answer, "HTTP/1.1 502 ") {
		t.Errorf("%q", answer)
	}
}

// A host that cannot be reached is said to be, and no more is said of the network.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	r.net.ports = nil
	for _, url := range []string{"http://example.com/", "https://example.com/"} {
		got, err := r.get(r.client(""), url)
		switch said := fmt.Sprint(got, err); {
		case !strings.Contains(said, "unreachable"):
			t.Errorf(`said = %q, want it to contain "unreachable"`, said)
		case strings.Contains(said, public):
			t.Errorf("said = %q, want it without %q", said, public)
		case strings.Contains(said, "listens"):
			t.Errorf(`said = %q, want it without "listens"`, said)
		}
	}
	for _, e := range ends(r.close()) {
		if e.Error == "" {
			t.Errorf("%+v", e)
		}
	}
}

// Connections beyond the limit wait. Silent connections don't block Close, which
// ends them all.
func TestManyConnections(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	for range 64 {
		conn := r.dial()
		if _, err := io.WriteString(conn, "GET http://exam"); err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
	}
	late := r.dial()
	if _, err := io.WriteString(late, "GET http://example.com/ HTTP/1.1\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	_ = late.SetReadDeadline(time.Now().Add(100 * time.Millisecond))
	if n, err := late.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection beyond the bound was served: %d, %v", n, err)
	}
	r.close()
}

// An open tunnel ends with Close, and its end is on record.
func TestCloseEndsTunnels(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	conn, _ := r.tunnel("example.com:443")
	secure := tls.Client(conn, &tls.Config{ServerName: "example.com", RootCAs: r.roots})
	expect.NoError(t, secure.Handshake())
	facts := r.close()
	if _, err := secure.Read(make([]byte, 1)); err == nil {
		t.Error("the tunnel is still open")
	}
	switch e := ends(facts); {
	case len(e) != 1:
		t.Errorf("ends: len(e) = %d (%+v), want 1", len(e), e)
	case e[0].BytesSent == 0:
		t.Error("ends: e[0].BytesSent = 0, want another value")
	case e[0].BytesReceived == 0:
		t.Error("ends: e[0].BytesReceived = 0, want another value")
	}
}

// A request that cannot be recorded is refused.
func TestNotRecorded(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	n := &network{names: worldWide}
	p, err := egress.New(egress.Options{Allow: []string{"example.com"}, Resolver: n, Dialer: n})
	expect.NoError(t, err)
	dir, err := os.MkdirTemp("", "eg")
	expect.NoError(t, err)
	defer os.RemoveAll(dir)
	server, err := p.Serve(t.Context(), filepath.Join(dir, "e.sock"), "/dev/full", nil)
	expect.NoError(t, err)
	r := &rig{t: t, path: filepath.Join(dir, "e.sock")}
	for _, host := range []string{"example.com", "evil.net"} {
		if answer := r.say("GET http://" + host + "/ HTTP/1.1\r\n\r\n"); !strings.HasPrefix(answer, "HTTP/1.1 503 ") {
			t.Errorf("%s: %q", host, answer)
		}
	}
	if err := server.Close(); err == nil {
		t.Error("Close returned no error although nothing was recorded")
	}
	if len(n.dials()) > 0 {
		t.Errorf("dialled %v", n.dials())
	}
}

// A flood of refusals is counted, and hides nothing that got out.
func TestFlood(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ledger := filepath.Join(dir, "egress.ndjson")
	told := 0
	expect.NoError(t, egress.Flood(ledger, 60, 50, func(egress.Fact) { told++ }))
	facts, err := egress.ReadFacts(ledger)
	expect.NoError(t, err)
	allowed, denied := egress.Count(facts)
	last := facts[len(facts)-1]
	expect.Equal(t, "allowed", allowed, 1)
	expect.Equal(t, "denied", denied, 60)
	if last.Omitted == nil {
		t.Fatal("last.Omitted = nil, want a value")
	}
	expect.Equal(t, "last.Omitted.Denied", last.Omitted.Denied, 10)
	expect.Equal(t, "told", told, len(facts))
	expect.Equal(t, "len(facts)", len(facts), 52)
}

// Facts become events of a turn that can be read back, and stay small.
func TestEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	if _, err := r.get(r.client(""), "http://example.com/"); err != nil {
		t.Fatal(err)
	}
	r.say("GET http://" + strings.Repeat("\x7f", 20<<10) + " HTTP/1.1\r\n\r\n")
	scope := turns.Scope{RuntimeID: "run_1", SessionID: "sess_1", TurnID: "turn_1"}
	var types []string
	for i, f := range r.close() {
		ev := f.Event(scope)
		ev.Sequence = int64(i + 1)
		line, err := ev.AppendLine(nil)
		expect.NoError(t, err)
		back, err := turns.DecodeRuntimeEvent(line)
		if err != nil || back.EventID != f.EventID || len(line) > 2<<10 {
			t.Errorf("%v: %s", err, line)
		}
		types = append(types, back.Type)
		var payload map[string]any
		if err := json.Unmarshal(back.Payload, &payload); err != nil || payload["egress_id"] == "" {
			t.Errorf("%v: %s", err, back.Payload)
		}
	}
	// The end of the first connection may be told after the second was refused.
	orders := [][]string{{"holon.egress.decision", "holon.egress.ended", "holon.egress.decision"},
		{"holon.egress.decision", "holon.egress.decision", "holon.egress.ended"}}
	if !slices.ContainsFunc(orders, func(o []string) bool { return slices.Equal(types, o) }) {
		t.Errorf("%v", types)
	}
}

// A ledger that a killed process left is continued, even after a torn last line.
func TestLedgerGoesOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, worldWide, "example.com")
	r.say("GET http://evil.net/ HTTP/1.1\r\n\r\n")
	if before := r.close(); len(before) != 1 {
		t.Fatalf("%+v", before)
	}
	whole, err := os.ReadFile(r.ledger)
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(r.ledger, append(whole, whole[:20]...), 0o600))
	p, err := egress.New(egress.Options{Resolver: r.net, Dialer: r.net})
	expect.NoError(t, err)
	if r.server, err = p.Serve(context.Background(), r.path, r.ledger, nil); err != nil {
		t.Fatal(err)
	}
	r.say("GET http://other.net/ HTTP/1.1\r\n\r\n")
	if got := decisions(r.close()); !slices.Equal(got,
		[]string{"denied host_not_allowed evil.net", "denied host_not_allowed other.net"}) {
		t.Errorf("%q", got)
	}
}
