package openresponses_test

import (
	"bufio"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"holon/responses"
	"holon/runner/access"
	"holon/runner/openresponses"
	"holon/test/expect"
)

// hurried is an answer to a client who has no time for its body.
type hurried struct{ http.ResponseWriter }

func (h hurried) Unwrap() http.ResponseWriter { return h.ResponseWriter }

func (h hurried) SetReadDeadline(t time.Time) error {
	if !t.IsZero() {
		t = time.Now()
	}
	return http.NewResponseController(h.ResponseWriter).SetReadDeadline(t)
}

// A body that stops coming, or ends early, is refused in words.
func TestStalledBody(t *testing.T) {
	server := openresponses.New(openresponses.Options{Log: slog.New(slog.NewTextHandler(io.Discard, nil))})
	defer server.Close()
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Hurried") != "" {
			w = hurried{w}
		}
		server.ServeHTTP(w, r.WithContext(access.With(r.Context(), access.Caller{Name: "ann", Sessions: true})))
	}))
	defer web.Close()
	for _, path := range []string{"/responses", "/responses/compact", "/responses/input_tokens", "/chat/completions"} {
		for _, tc := range []struct {
			header, code string
			status       int
			end          bool
		}{
			{"X-Hurried: 1\r\n", responses.CodeRequestTimeout, http.StatusRequestTimeout, false},
			{"", responses.CodeInvalidJSON, http.StatusBadRequest, true},
		} {
			conn, err := net.Dial("tcp", web.Listener.Addr().String())
			expect.NoError(t, err)
			_, err = fmt.Fprintf(conn, "POST /v1%s HTTP/1.1\r\nHost: x\r\n%sContent-Length: 500\r\n\r\n{", path, tc.header)
			expect.NoError(t, err)
			if tc.end {
				expect.NoError(t, conn.(*net.TCPConn).CloseWrite())
			}
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			expect.NoError(t, err)
			body, err := io.ReadAll(resp.Body)
			expect.NoError(t, err)
			answer{resp.StatusCode, resp.Header, string(body)}.is(t, tc.status, tc.code, "")
			expect.NoError(t, conn.Close())
		}
	}
}
