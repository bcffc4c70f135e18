package egress

import (
	"bufio"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
)

func readHeadOf(raw string) (head, error) {
	return readHead(bufio.NewReaderSize(strings.NewReader(raw), maxHead))
}

func TestHead(t *testing.T) {
	t.Parallel()
	const get = "GET http://a.example/ HTTP/1.1\r\nHost: a.example\r\n"
	for raw, ok := range map[string]bool{
		get + "\r\n": true, get + "X: \xff\t y\r\n\r\n": true, get + "Content-Length: 5\r\n\r\nhello": true,
		get + "Transfer-Encoding: Chunked\r\n\r\n0\r\n\r\n": true,
		"CONNECT a.example:443 HTTP/1.0\r\n\r\n":            true,
		get + "\r\nGET http://b.example/ HTTP/1.1\r\n\r\n":  true,
		get + "A:\r\n\r\n": true,
		"":                 false, "\r\n\r\n": false, get: false, "GET http://a.example/\r\n\r\n": false,
		"GET  http://a.example/ HTTP/1.1\r\n\r\n": false, "GET\thttp://a.example/ HTTP/1.1\r\n\r\n": false,
		"GET http://a.example/ HTTP/2.0\r\n\r\n": false, "GET http://a.example/ HTTP/1.1 \r\n\r\n": false,
		"G(T http://a.example/ HTTP/1.1\r\n\r\n": false, "GET http://a.example/\x00 HTTP/1.1\r\n\r\n": false,
		"GET http://a.example\\@b.example/ HTTP/1.1\r\n\r\n": false,
		"\r\nGET http://a.example/ HTTP/1.1\r\n\r\n":         false,
		get + "Host: b.example\r\n\r\n":                      false, "GET http://a.example/ HTTP/1.1\r\nHost:\r\n\r\n": false,
		get + "Content-Length: 5\r\nContent-Length: 6\r\n\r\n": false, get + "Content-Length: 5, 5\r\n\r\n": false,
		get + "Content-Length: +5\r\n\r\n": false, get + "Content-Length: 0x5\r\n\r\n": false,
		get + "Content-Length: -1\r\n\r\n": false, get + "Content-Length: 9999999999999999999\r\n\r\n": false,
		get + "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n":           false,
		get + "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n": false,
		get + "Transfer-Encoding: gzip, chunked\r\n\r\n":                          false,
		get + "Transfer-Encoding: \x0bchunked\r\n\r\n":                            false,
		get + "Transfer-Encoding : chunked\r\n\r\n":                               false,
		get + " Transfer-Encoding: chunked\r\n\r\n":                               false,
		get + "X: a\r\n b\r\n\r\n":                                                false,
		get + "X: a\n\r\n\r\n":                                                    false,
		get + "X: a\rY: b\r\n\r\n":                                                false,
		get + "X: a\x00b\r\n\r\n":                                                 false, get + "X\r\n\r\n": false,
		get + ": a\r\n\r\n": false, get + "Xé: a\r\n\r\n": false,
		"GET http://a.example/ HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n": false,
		get + "X: " + strings.Repeat("y", maxHead) + "\r\n\r\n":                false,
		"GET http://a.example/ HTTP/1.1\n\n":                                   false,
	} {
		if h, err := readHeadOf(raw); (err == nil) != ok {
			t.Errorf("%.120q: %+v, %v", raw, h, err)
		}
	}
}

// The head is the same however the bytes arrive, and nothing behind it is lost.
func TestHeadInPieces(t *testing.T) {
	t.Parallel()
	raw := "POST http://a.example/ HTTP/1.1\r\nHost: a.example:80\r\nExpect: 100-continue\r\nContent-Length: " +
		"4\r\n\r\nbody"
	for name, r := range map[string]io.Reader{"whole": strings.NewReader(raw),
		"bytes": iotest.OneByteReader(strings.NewReader(raw)), "half": iotest.HalfReader(strings.NewReader(raw))} {
		in := bufio.NewReaderSize(r, maxHead)
		h, err := readHead(in)
		want := head{method: "POST", target: "http://a.example/", version: "HTTP/1.1", host: "a.example:80",
			hasBody: true, expects: true, size: len(raw) - 4}
		if err != nil || h != want {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		if rest, err := io.ReadAll(in); err != nil || string(rest) != raw {
			t.Errorf("%s: %q is left, %v", name, rest, err)
		}
	}
	if _, err := readHeadOf(""); !errors.Is(err, io.EOF) {
		t.Errorf("nothing: %v", err)
	}
	if _, err := readHeadOf("GET"); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("half a line: %v", err)
	}
}
