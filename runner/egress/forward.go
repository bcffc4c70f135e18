package egress

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const maxAnswerHeader = 256 << 10

// forward sends one plain request and passes its answer on. The request is built
// from the parsed one, and its connection serves no other, so the host reads
// exactly one request even if the container sent more.
func (x *connection) forward(ctx context.Context, in *bufio.Reader, h head, t target, addrs []netip.Addr) (
	at netip.Addr, err error) {
	from, err := http.ReadRequest(in)
	if err != nil || from.Method != h.method {
		x.answer(http.StatusBadRequest, reasonMalformed, "the request cannot be read")
		return at, errors.New("the request cannot be read")
	}
	defer from.Body.Close()
	if h.expects {
		if _, err := fmt.Fprint(x.client, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
			return at, errGone
		}
	}
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, MaxResponseHeaderBytes: maxAnswerHeader,
		DialContext: func(ctx context.Context, _, _ string) (conn net.Conn, err error) {
			conn, at, err = x.connect(ctx, addrs, t.port)
			return conn, err
		},
	}
	defer transport.CloseIdleConnections()
	resp, err := transport.RoundTrip(x.outgoing(ctx, from, h, t)) // follows no redirect
	if err != nil {
		x.answer(http.StatusBadGateway, "unreachable", t.host+": the host gave no answer")
		return at, errors.New("the host gave no answer")
	}
	defer resp.Body.Close()
	if resp.StatusCode < 200 {
		x.answer(http.StatusBadGateway, "upgrade", t.host+": connections are not upgraded")
		return at, fmt.Errorf("the host answered with status %d", resp.StatusCode)
	}
	dropHopByHop(resp.Header)
	resp.Close, resp.Trailer = true, nil
	resp.Proto, resp.ProtoMajor, resp.ProtoMinor = "HTTP/1.1", 1, 1
	if h.version == "HTTP/1.0" {
		resp.TransferEncoding = nil // it knows none: the answer ends with the connection
	}
	if err := resp.Write(x.client); err != nil {
		return at, errors.New("the answer was cut off")
	}
	return at, nil
}

// outgoing is the request to the host.
func (x *connection) outgoing(ctx context.Context, from *http.Request, h head, t target) *http.Request {
	authority := t.host
	if strings.Contains(authority, ":") {
		authority = "[" + authority + "]"
	}
	if t.port != 80 {
		authority += ":" + strconv.Itoa(t.port)
	}
	out := &http.Request{
		Method: from.Method, Header: from.Header.Clone(), Host: authority, ContentLength: from.ContentLength,
		Body: from.Body,
		URL: &url.URL{Scheme: "http", Host: authority, Path: from.URL.Path, RawPath: from.URL.RawPath,
			RawQuery: from.URL.RawQuery, ForceQuery: from.URL.ForceQuery},
	}
	if !h.hasBody {
		out.Body, out.ContentLength = http.NoBody, 0
	}
	dropHopByHop(out.Header)
	if _, ok := out.Header["User-Agent"]; !ok {
		out.Header["User-Agent"] = nil // none is made up
	}
	return out.WithContext(ctx)
}

// dropHopByHop removes the fields that are about one connection, those that
// Connection names among them.
func dropHopByHop(h http.Header) {
	for _, list := range h.Values("Connection") {
		for name := range strings.SplitSeq(list, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range []string{
		"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authentication-Info", "Proxy-Authorization",
		"Proxy-Connection",
		"Te", "Trailer", "Transfer-Encoding", "Upgrade", "Http2-Settings", "Expect",
	} {
		h.Del(name)
	}
}
