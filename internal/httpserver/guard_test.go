package httpserver_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"holon/internal/httpserver"
	"holon/test/expect"
)

// guarded serves on a port of this machine, and lets in who says so. It returns
// the address and the requests that came, with their bodies.
func guarded(t *testing.T, strangers int) (addr string, seen func() []string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	var mu sync.Mutex
	var list []string
	server := &http.Server{ConnContext: httpserver.ConnContext,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			httpserver.Begin(w, r)
			body, err := io.ReadAll(r.Body)
			if err != nil {
				return
			}
			mu.Lock()
			list = append(list, r.URL.Path+" "+string(body))
			mu.Unlock()
			if r.Header.Get("Authorization") == "" {
				w.Header().Set("Connection", "close")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			httpserver.Admit(r)
			w.WriteHeader(http.StatusOK)
		})}
	done := make(chan error, 1)
	go func() { done <- server.Serve(httpserver.Guard(l, strangers)) }()
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
		<-done
	})
	return l.Addr().String(), func() []string {
		mu.Lock()
		defer mu.Unlock()
		return append([]string{}, list...)
	}
}

// dial connects, with a minute for all that follows.
func dial(t *testing.T, addr string) (net.Conn, *bufio.Reader) {
	t.Helper()
	conn, err := net.Dial("tcp", addr)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	expect.NoError(t, conn.SetDeadline(time.Now().Add(time.Minute)))
	return conn, bufio.NewReader(conn)
}

// statuses reads answers until the server ends the connection.
func statuses(r *bufio.Reader) (list []int) {
	for {
		resp, err := http.ReadResponse(r, nil)
		if err != nil {
			return list
		}
		if _, err := io.Copy(io.Discard, resp.Body); err != nil {
			return list
		}
		list = append(list, resp.StatusCode)
	}
}

// A request has a length or chunks, never both, wherever on a connection it stands
// and in whatever pieces it comes.
func TestFraming(t *testing.T) {
	const head, in, last = " HTTP/1.1\r\nHost: x\r\n", "Authorization: x\r\n",
		"Authorization: x\r\nConnection: close\r\n"
	const chunks = "3\r\nabc\r\n0\r\n\r\n"
	smuggled := "GET /smuggled" + head + last + "\r\n"
	for name, tc := range map[string]struct {
		sent string
		want string // statuses and what the handler saw
	}{
		"lengths": {"POST /a" + head + in + "Content-Length: 3\r\n\r\nabcPOST /b" + head + in +
			"content-length:2\r\n\r\nde\r\nGET /c" + head + last + "\r\n", "[200 200 200] [/a abc /b de /c ]"},
		"line feeds alone": {"POST /a HTTP/1.1\nHost: x\nAuthorization: x\nContent-Length: 3\n\nabcGET /c" +
			head + last + "\r\n", "[200 200] [/a abc /c ]"},
		"a head within a body": {"POST /a" + head + last +
			"Content-Length: 42\r\n\r\nA: b\r\nTransfer-Encoding: c\r\nContent-Length",
			"[200] [/a A: b\r\nTransfer-Encoding: c\r\nContent-Length]"},
		"chunks": {"POST /a" + head + in + "Transfer-Encoding: chunked\r\n\r\n" + chunks,
			"[200] [/a abc]"},
		"nothing follows chunks": {"POST /a" + head + in + "Transfer-Encoding: chunked\r\n\r\n" +
			chunks + smuggled, "[200] [/a abc]"},
		"both": {"POST /a" + head + in +
			"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks + smuggled, "[400] []"},
		"both, the other way": {"POST /a" + head + in +
			"Transfer-Encoding: chunked\r\nContent-Length: 13\r\n\r\n" + chunks + smuggled, "[400] []"},
		"both, in other letters": {"POST /a" + head + in +
			"TRANSFER-ENCODING: chunked\r\ncontent-Length: 13\r\n\r\n" + chunks, "[400] []"},
		"both, with a folded line": {"POST /a" + head + in +
			"Transfer-Encoding:\r\n chunked\r\nContent-Length: 13\r\n\r\n" + chunks, "[400] []"},
		"both, far apart": {"POST /a" + head + in + "Content-Length: 13\r\nX: " +
			strings.Repeat("a", 9000) + "\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "[400] []"},
		"both, of the second request": {"POST /a" + head + in + "Content-Length: 3\r\n\r\nabcPOST /b" + head + in +
			"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "[200 400] [/a abc]"},
		"both, in an older version": {"POST /a HTTP/1.0\r\nAuthorization: x\r\nConnection: " +
			"keep-alive\r\nContent-Length: 13\r\nTransfer-Encoding: chunked\r\n\r\n" + chunks, "[400] []"},
		"chunks in an older version": {"POST /a HTTP/1.0\r\nAuthorization: x\r\nConnection: " +
			"keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n" + smuggled, "[200] [/a ]"},
		"two lengths that are one": {"POST /a" + head + in + "Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc",
			"[400] []"},
		"a length on a line of its own": {"POST /a" + head + in + "Content-Length:\r\n 3\r\n\r\nabc", "[400] []"},
		"a length with a sign":          {"POST /a" + head + in + "Content-Length: +3\r\n\r\nabc", "[400] []"},
		"a length behind many zeros": {"POST /a" + head + in + "Content-Length: " + strings.Repeat("0", 100) +
			"3\r\n\r\nabc", "[400] []"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, size := range []int{1, 7, len(tc.sent)} {
				addr, seen := guarded(t, 9)
				conn, r := dial(t, addr)
				if size == 1 {
					expect.NoError(t, conn.(*net.TCPConn).SetNoDelay(true))
				}
				go func() {
					for rest := tc.sent; rest != ""; {
						n := min(size, len(rest))
						if _, err := io.WriteString(conn, rest[:n]); err != nil {
							return
						}
						rest = rest[n:]
					}
				}()
				// Bytes that are still sent may reset the connection before the answer is read.
				refused := strings.Contains(tc.want, "400")
				answered, asked := statuses(r), seen()
				if got := fmt.Sprint(answered, " ", asked); got != tc.want &&
					(!refused || len(answered) > len(asked) || !strings.HasSuffix(tc.want, fmt.Sprint(asked))) {
					t.Errorf("pieces of %d: %s, want %s", size, got, tc.want)
				}
			}
		})
	}
}

// Refused connections are closed, and admitted ones stay.
func TestClosedAfterRefusal(t *testing.T) {
	addr, seen := guarded(t, 9)
	conn, r := dial(t, addr)
	fmt.Fprint(conn, "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\n\r\nGET /b HTTP/1.1\r\nHost: x\r\n\r\nGET "+
		"/c HTTP/1.1\r\nHost: x\r\n\r\n")
	if got := fmt.Sprint(statuses(r), " ", seen()); got != "[200 401] [/a  /b ]" {
		t.Error(got)
	}
}

// Strangers take no place of those who were let in, and can't keep others out.
func TestStrangers(t *testing.T) {
	addr, _ := guarded(t, 2)
	ask := func(conn net.Conn, r *bufio.Reader) {
		t.Helper()
		fmt.Fprint(conn, "GET /a HTTP/1.1\r\nHost: x\r\nAuthorization: x\r\n\r\n")
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%v, %v", resp, err)
		}
	}
	conns, readers := make([]net.Conn, 4), make([]*bufio.Reader, 4)
	for i := range conns { // more than may be strangers, and none any more
		conns[i], readers[i] = dial(t, addr)
		ask(conns[i], readers[i])
	}
	first, silent := dial(t, addr)
	fmt.Fprint(first, "GET /a HT")
	for range 3 {
		dial(t, addr)
	}
	conn, r := dial(t, addr)
	ask(conn, r)
	for i := range conns {
		ask(conns[i], readers[i])
	}
	if _, err := silent.ReadByte(); err == nil || strings.Contains(err.Error(), "timeout") {
		t.Errorf("the oldest stranger is still served: %v", err)
	}
}
