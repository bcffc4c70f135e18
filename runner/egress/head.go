package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"strings"

	"golang.org/x/net/http/httpguts"
)

const maxHead = 32 << 10 // request line and headers

// head is what a request says before its body, as far as it is judged.
type head struct {
	method, target, version string
	host                    string // the Host field, "" when there is none
	hasBody                 bool
	size                    int  // in bytes, empty line included
	expects                 bool // the client waits for 100 before it sends the body
}

// readHead reads a request up to its empty line and leaves it in r, whose
// buffer has maxHead bytes. The error is io.EOF when nothing was sent.
func readHead(r *bufio.Reader) (head, error) {
	for seen := 0; ; {
		if _, err := r.Peek(seen + 1); err != nil {
			if errors.Is(err, bufio.ErrBufferFull) {
				return head{}, fmt.Errorf("the head of the request has more than %d bytes", maxHead)
			}
			if errors.Is(err, io.EOF) && seen > 0 {
				return head{}, io.ErrUnexpectedEOF
			}
			return head{}, err
		}
		raw, _ := r.Peek(r.Buffered()) // is there
		if end := bytes.Index(raw[max(0, seen-3):], []byte("\r\n\r\n")); end >= 0 {
			end += max(0, seen-3)
			h, err := parseHead(string(raw[:end+4]))
			h.size = end + 4
			return h, err
		}
		seen = len(raw)
	}
}

// parseHead reads a request up to its empty line, as net/http does, and refuses what other programs could read in
// another way.
func parseHead(raw string) (h head, err error) {
	req, err := http.ReadRequest(bufio.NewReader(strings.NewReader(raw)))
	if err != nil {
		return head{}, err
	}
	lines := textproto.NewReader(bufio.NewReader(strings.NewReader(raw)))
	_, _ = lines.ReadLine() // the request's, which was read
	fields, err := lines.ReadMIMEHeader()
	if err != nil {
		return head{}, err
	}
	if err := checkHead(raw, req, fields); err != nil {
		return head{}, err
	}
	return head{method: req.Method, target: req.RequestURI, version: req.Proto,
		host: strings.TrimSpace(fields.Get("Host")), hasBody: req.ContentLength != 0,
		expects: strings.EqualFold(req.Header.Get("Expect"), "100-continue")}, nil
}

// checkHead refuses a head that other programs could read in another way.
func checkHead(raw string, req *http.Request, fields textproto.MIMEHeader) error {
	for name := range fields {
		if !httpguts.ValidHeaderFieldName(name) {
			return fmt.Errorf("%.40q cannot name a header field", name)
		}
	}
	hosts, coded := fields["Host"], len(req.TransferEncoding) > 0
	switch {
	case !httpguts.ValidHeaderFieldValue(strings.ReplaceAll(raw, "\r\n", "")):
		return errors.New("a control character in the head of the request")
	case strings.Contains(raw, "\r\n ") || strings.Contains(raw, "\r\n\t"):
		return errors.New("a header field of several lines")
	case req.ProtoMajor != 1 || req.ProtoMinor > 1:
		return fmt.Errorf("the protocol %.20q is not HTTP/1.1", req.Proto)
	case len(hosts) > 1 || len(hosts) == 1 && strings.TrimSpace(hosts[0]) == "":
		return errors.New("more than one Host, or an empty one")
	case coded && len(fields["Content-Length"]) > 0:
		return errors.New("both a length and a transfer coding")
	case len(fields["Transfer-Encoding"]) > 0 && !coded:
		return errors.New("a transfer coding in HTTP/1.0")
	}
	return nil
}
