package egress

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
)

const (
	maxHead   = 32 << 10 // request line and headers
	maxFields = 128
)

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
			h, err := parseHead(string(raw[:end]))
			h.size = end + 4
			return h, err
		}
		seen = len(raw)
	}
}

// parseHead reads the lines of a request up to its empty line. It knows one form
// of everything: what two programs could read in two ways is refused, however
// common. raw has no empty line at its end.
func parseHead(raw string) (h head, err error) {
	lines := strings.Split(raw, "\r\n")
	if len(lines) > maxFields+1 {
		return head{}, fmt.Errorf("more than %d header fields", maxFields)
	}
	for _, line := range lines {
		if i := strings.IndexFunc(line, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }); i >= 0 {
			return head{}, fmt.Errorf("a control character (%#02x) in the head of the request", line[i])
		}
	}
	if h.method, h.target, h.version, err = parseRequestLine(lines[0]); err != nil {
		return head{}, err
	}
	once := map[string]string{}
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if !ok || !isToken(name) {
			return head{}, fmt.Errorf("%.40q is not a header field", line)
		}
		name, value = strings.ToLower(name), strings.Trim(value, " \t")
		switch name {
		case "host", "content-length", "transfer-encoding":
			if _, twice := once[name]; twice {
				return head{}, fmt.Errorf("two fields %s", name)
			}
			once[name] = value
		case "expect":
			h.expects = strings.EqualFold(value, "100-continue")
		}
	}
	return h, h.framed(once)
}

// framed takes over the fields that say where the body ends and for whom it is.
func (h *head) framed(fields map[string]string) error {
	length, hasLength := fields["content-length"]
	coding, hasCoding := fields["transfer-encoding"]
	switch {
	case hasLength && hasCoding:
		return errors.New("both a length and a transfer coding")
	case hasLength && (length == "" || len(length) > 18 || strings.Trim(length, "0123456789") != ""):
		return fmt.Errorf("%.40q is not a length", length)
	case hasCoding && !strings.EqualFold(coding, "chunked"):
		return fmt.Errorf("the transfer coding %.40q is not chunked", coding)
	case hasCoding && h.version == "HTTP/1.0":
		return errors.New("a transfer coding in HTTP/1.0")
	}
	host, hasHost := fields["host"]
	if hasHost && host == "" {
		return errors.New("an empty Host")
	}
	h.host, h.hasBody = host, hasCoding || strings.Trim(length, "0") != ""
	return nil
}

func parseRequestLine(line string) (method, target, version string, err error) {
	parts := strings.Split(line, " ")
	if len(parts) != 3 || !isToken(parts[0]) || len(parts[0]) > 32 || parts[1] == "" {
		return "", "", "", errors.New("the request line is not METHOD target HTTP/1.1")
	}
	if parts[2] != "HTTP/1.1" && parts[2] != "HTTP/1.0" {
		return "", "", "", fmt.Errorf("the protocol %.20q is not HTTP/1.1", parts[2])
	}
	if strings.ContainsFunc(parts[1], func(r rune) bool {
		return r <= ' ' || r > '~'
	}) || strings.ContainsAny(parts[1], "\\#\"<>") {
		return "", "", "", errors.New("the target has a character that no URL has")
	}
	return parts[0], parts[1], parts[2], nil
}

func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' ||
			strings.ContainsRune("!#$%&'*+-.^_`|~", r))
	})
}
