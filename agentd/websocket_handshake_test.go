package agentd_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"testing"

	"github.com/coder/websocket"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/test/expect"
)

// upgrade returns a bare connection after the handshake.
func (h *harness) upgrade(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", h.cfg.Server.Socket)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	if _, err := io.WriteString(conn, "GET /responses HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, "+
		"Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: "+
		"AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Extensions: permessage-deflate\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	r := bufio.NewReader(conn)
	resp, err := http.ReadResponse(r, nil)
	expect.NoError(t, err)
	if resp.StatusCode != http.StatusSwitchingProtocols || resp.Header.Get("Sec-WebSocket-Extensions") != "" ||
		r.Buffered() > 0 {
		t.Fatalf("%+v, %+v", resp, r)
	}
	return conn
}

func TestSocketHandshake(t *testing.T) {
	t.Parallel()
	h := start(t)
	good := map[string]string{"Connection": "Upgrade", "Upgrade": "websocket", "Sec-WebSocket-Version": "13",
		"Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA=="}
	for _, c := range map[string]struct {
		header, value string
		status        int
		code, param   string
	}{
		"no upgrade":       {"Upgrade", "", 405, responses.CodeMethodNotAllowed, ""},
		"no connection":    {"Connection", "close", 405, responses.CodeMethodNotAllowed, ""},
		"another protocol": {"Upgrade", "h2c", 405, responses.CodeMethodNotAllowed, ""},
		"a web page":       {"Origin", "http://agentd", 403, responses.CodeForbidden, "Origin"},
		"another version":  {"Sec-WebSocket-Version", "8", 400, responses.CodeInvalidValue, "Sec-WebSocket-Version"},
		"a short key":      {"Sec-WebSocket-Key", "AAAA", 400, responses.CodeInvalidValue, "Sec-WebSocket-Key"},
	} {
		var header []string
		for key, value := range good {
			if key != c.header {
				header = append(header, key, value)
			}
		}
		if c.value != "" {
			header = append(header, c.header, c.value)
		}
		a := h.do(http.MethodGet, "/responses", "", header...)
		a.refused(t, c.status, c.code, c.param)
	}
}

// The TCP listener admits to a WebSocket whom it admits elsewhere.
func TestSocketGuard(t *testing.T) {
	t.Parallel()
	file := t.TempDir() + "/token"
	const token = "0123456789abcdef0123456789abcdef"
	expect.NoError(t, os.WriteFile(file, []byte(token), 0o600))
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Server.Listen, c.Server.TokenFile = "127.0.0.1:0", file })
	for name, c := range map[string]struct {
		header http.Header
		status int
	}{
		"no token":    {http.Header{}, 401},
		"wrong token": {http.Header{"Authorization": {"Bearer x"}}, 401},
		"a web page":  {http.Header{"Authorization": {"Bearer " + token}, "Origin": {"http://" + h.tcp}}, 403},
		"the token":   {http.Header{"Authorization": {"Bearer " + token}}, 101},
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		conn, resp, err := websocket.Dial(ctx, "ws://"+h.tcp+"/responses", &websocket.DialOptions{HTTPHeader: c.header})
		cancel()
		if err == nil {
			_ = conn.CloseNow()
		}
		if resp == nil || resp.StatusCode != c.status {
			t.Errorf("%s: %v, %v", name, resp, err)
		}
	}
}
