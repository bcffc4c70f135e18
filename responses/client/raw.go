package client

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"github.com/coder/websocket"

	"holon/responses"
)

// Raw sends a request as it is and returns the answer as it comes, whatever its status, with a body that the caller
// reads and closes. path may have a query. The headers of the client replace those of header. Informational answers
// go to the httptrace of ctx.
func (c *Client) Raw(ctx context.Context, method, path string, header http.Header,
	body []byte) (*http.Response, error) {
	var r io.Reader
	if len(body) > 0 {
		r = bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, c.base+path, r)
	if err != nil {
		return nil, responses.Internal(fmt.Sprintf("the request %s %.200q cannot be made", method, path), err)
	}
	req.Header = header.Clone()
	if req.Header == nil {
		req.Header = make(http.Header)
	}
	maps.Copy(req.Header, c.header)
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, c.broken(ctx, method+" "+path, err)
	}
	return resp, nil
}

// WebSocket opens a connection for GET /responses. The caller closes it.
func (c *Client) WebSocket(ctx context.Context) (*websocket.Conn, error) {
	conn, resp, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(c.base, "http")+"/responses",
		&websocket.DialOptions{HTTPClient: c.http, HTTPHeader: c.header, CompressionMode: websocket.CompressionDisabled})
	switch {
	case err == nil:
		conn.SetReadLimit(maxResponse)
		return conn, nil
	case resp != nil: // its body is what there was to read
		return nil, c.failure(ctx, resp)
	}
	return nil, c.broken(ctx, "GET /responses", err)
}
