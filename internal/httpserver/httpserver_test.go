package httpserver_test

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"
	"time"

	"holon/internal/httpserver"
	"holon/test/expect"
)

// A body that stops coming is given up; one that came whole leaves a connection
// that can be used again.
func TestBody(t *testing.T) {
	got := make(chan error, 1)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, err := httpserver.ReadBody(w, r, 10, 100*time.Millisecond)
		got <- err
	}))
	defer srv.Close()
	conn, err := net.Dial("tcp", srv.Listener.Addr().String())
	expect.NoError(t, err)
	defer conn.Close()
	answers := bufio.NewReader(conn)
	for range 2 {
		if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\nok"); err != nil {
			t.Fatal(err)
		}
		if err := <-got; err != nil {
			t.Fatalf("a whole body: %v", err)
		}
		if _, err := http.ReadResponse(answers, nil); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := fmt.Fprintf(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nno more"); err != nil {
		t.Fatal(err)
	}
	expect.ErrorIs(t, "a body that stopped", <-got, os.ErrDeadlineExceeded)
}
