package openresponses

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"time"

	"holon/responses"
)

// writeTimeout is how long a client may read nothing of its answer. It can come back for the rest.
const writeTimeout = 2 * time.Minute

// deadline bounds how long the next part of an answer may wait for its reader.
func deadline(w http.ResponseWriter) {
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeTimeout)) // a recorder in a test has none
}

// forwarded are the headers of a client that agentd reads.
func forwarded(h http.Header) http.Header {
	out := make(http.Header)
	for _, name := range []string{"Accept", "Content-Type"} {
		if values := h.Values(name); len(values) > 0 {
			out[name] = values
		}
	}
	return out
}

// hops are the headers of an answer that are about one connection.
func hops(name string) bool {
	switch name {
	case "Connection", "Keep-Alive", "Transfer-Encoding", "Trailer", "Upgrade", "Date":
		return true
	}
	return false
}

// maxHeld is how much of the end of an answer is read before it is held: agentd may go when the turn is over.
const maxHeld = 16 << 20

// heldEnd is the body of an answer of agentd, of which nothing is passed on from the last event on, or of one that is
// whole, before hold has returned.
type heldEnd struct {
	io.ReadCloser
	lines  *bufio.Reader
	hold   func()
	whole  bool
	within bool   // a line, of which the beginning was read
	rest   []byte // to be passed on
}

func (e *heldEnd) Read(p []byte) (int, error) {
	if len(e.rest) == 0 {
		line, err := e.lines.ReadSlice('\n')
		if len(line) == 0 && err != nil {
			return 0, err
		}
		e.rest = line
		if e.whole || !e.within && ends(line) {
			e.rest = bytes.Clone(line)
			last, _ := io.ReadAll(io.LimitReader(e.lines, maxHeld)) // the next Read has the error
			e.rest, e.whole = append(e.rest, last...), false
			e.hold()
		}
		e.within = !bytes.HasSuffix(e.rest, []byte{'\n'})
	}
	n := copy(p, e.rest)
	e.rest = e.rest[n:]
	return n, nil
}

// ends reports whether the last event of a response begins with a line: as an event of SSE, or as an object.
func ends(line []byte) bool {
	name, isSSE := bytes.CutPrefix(line, []byte("event: "))
	if !isSSE {
		name = []byte(responses.EventType(line))
	}
	return responses.Terminal(string(bytes.TrimSpace(name)))
}

// errCut says that an answer broke when a part of it was sent: the client must not take it for whole.
var errCut = errors.New("the answer broke off")

// pass copies an answer of agentd as it comes: status, headers, and each part of the body at once.
func pass(w http.ResponseWriter, resp *http.Response) error {
	defer resp.Body.Close()
	h := w.Header()
	for name, values := range resp.Header {
		if !hops(name) {
			h[name] = values
		}
	}
	deadline(w)
	w.WriteHeader(resp.StatusCode)
	rc := http.NewResponseController(w)
	buf := make([]byte, 32<<10)
	for {
		n, err := resp.Body.Read(buf)
		if n > 0 {
			deadline(w)
			_, failed := w.Write(buf[:n])
			if failed == nil {
				failed = rc.Flush()
			}
			if failed != nil {
				return nil // the client is gone
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return errCut
		}
	}
}
