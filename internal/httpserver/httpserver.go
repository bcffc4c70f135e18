// Package httpserver has what both servers, agentd and the control plane, need of
// net/http beyond it: connections with one framing and little room for strangers,
// request bodies that must keep coming, and answers of which is known whether they
// have begun. It knows no route and no error of theirs.
package httpserver

import (
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"
)

// BodyRate is how slowly a request body may come, in bytes a second, beside a
// time that every body has: a client that sends less holds a connection and
// nothing else.
const BodyRate = 1 << 10

// Body returns the body of a request with a deadline for what has not come yet:
// patience from now on, and a second for every BodyRate bytes that came. Reading
// it late fails with os.ErrDeadlineExceeded. At its end the connection has no
// read deadline any more: the server goes on reading to notice when the client
// goes.
func Body(w http.ResponseWriter, r *http.Request, patience time.Duration) io.ReadCloser {
	return &paced{r: r.Body, rc: http.NewResponseController(w), until: time.Now().Add(patience)}
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

// Answer is an http.ResponseWriter that notes the status of the answer. One that
// keeps its client out ends the connection.
type Answer struct {
	http.ResponseWriter
	Status int // 0 while there is none
}

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 {
		a.Status = status
	}
	if status == http.StatusUnauthorized || status == http.StatusForbidden {
		a.Header().Set("Connection", "close")
	}
	a.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(p []byte) (int, error) {
	if a.Status == 0 {
		a.Status = http.StatusOK
	}
	return a.ResponseWriter.Write(p)
}

// Unwrap lets http.ResponseController reach the connection.
func (a *Answer) Unwrap() http.ResponseWriter { return a.ResponseWriter }

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
