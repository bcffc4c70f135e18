// Package httpserver has what both servers, agentd and the control plane, need of
// net/http beyond it: connections with one framing and little room for strangers, and
// request bodies that must keep coming. It has no route and no error of theirs.
package httpserver

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"holon/internal/bounded"
)

// BodyRate is the lowest rate of a request body, in bytes a second, after a time
// that every body has: a client that sends less holds a connection and nothing
// else.
const BodyRate = 1 << 10

// ErrEncoded is the error of a body that is compressed, which is not read.
var ErrEncoded = errors.New("the body has a content encoding")

// ReadBody reads the body of a request, of at most limit bytes. The rest of the body has a deadline: patience from
// now on, and a second for every BodyRate bytes that came. The error is ErrEncoded, a *bounded.TooLargeError,
// os.ErrDeadlineExceeded or that of the connection. After the end of a body the connection has no read deadline: the
// server goes on reading to notice when the client goes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, patience time.Duration) ([]byte, error) {
	if enc := r.Header.Get("Content-Encoding"); enc != "" && enc != "identity" {
		return nil, ErrEncoded
	}
	if r.ContentLength > limit { // known beforehand, so nothing need be read
		return nil, &bounded.TooLargeError{Limit: limit}
	}
	body := &paced{r: r.Body, rc: http.NewResponseController(w), until: time.Now().Add(patience)}
	data, err := io.ReadAll(http.MaxBytesReader(w, body, limit)) // which closes the connection beyond the limit
	if _, over := errors.AsType[*http.MaxBytesError](err); over {
		return nil, &bounded.TooLargeError{Limit: limit}
	}
	return data, err
}

type paced struct {
	r     io.ReadCloser
	rc    *http.ResponseController
	until time.Time // without the time for what has come
	n     int64
}

// Read implements io.Reader.
func (p *paced) Read(b []byte) (int, error) {
	p.deadline(p.until.Add(time.Duration(p.n/BodyRate) * time.Second))
	n, err := p.r.Read(b)
	p.n += int64(n)
	if errors.Is(err, io.EOF) {
		p.deadline(time.Time{})
	}
	return n, err
}

// Close implements io.Closer.
func (p *paced) Close() error { return p.r.Close() }

func (p *paced) deadline(t time.Time) { _ = p.rc.SetReadDeadline(t) } // a recorder in a test has none

// IsJSON reports whether a request says of its body, once, that it is JSON of some
// kind in UTF-8.
func IsJSON(r *http.Request) bool {
	given := r.Header.Values("Content-Type")
	if len(given) != 1 {
		return false
	}
	kind, params, err := mime.ParseMediaType(given[0])
	charset, named := params["charset"]
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json")) &&
		(!named || strings.EqualFold(charset, "utf-8"))
}
