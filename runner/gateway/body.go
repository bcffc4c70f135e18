package gateway

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"

	"holon/responses"
)

const (
	maxBody = 64 << 20
	// maxHead bounds what is held back of a body until it names its model.
	maxHead = 1 << 20
	// maxReplay bounds the body of a request that is sent again with a new key.
	maxReplay = 8 << 20
)

// requestBody is the body of a request on its way to the provider. It is looked
// at as it passes: when it turns out that it may not pass, the provider gets no
// end of it. The transport may still read it from another goroutine when an
// answer is there already, and may wait for the container then: what the handler
// asks does not wait with it.
type requestBody struct {
	source io.Reader // bounded
	size   atomic.Int64
	closed atomic.Bool
	fault  atomic.Pointer[error] // why no more of it passes
	read   atomic.Int64          // scan.read and scan.wide so far
	wide   atomic.Bool

	mu    sync.Mutex // held while it is read
	scan  scan
	head  []byte // was looked at and not read yet
	ended bool   // all of it was looked at
	keep  bool
	kept  []byte // all that was read, while keep
}

// newRequestBody makes the body of r. With keep it can be sent again.
func newRequestBody(r *http.Request, grammar *rule, keep bool) *requestBody {
	// MaxBytesReader gets no ResponseWriter, because it would use it from the
	// transport's goroutine.
	return &requestBody{source: http.MaxBytesReader(nil, r.Body, maxBody), scan: newScan(grammar), keep: keep}
}

// model reads as much as it takes to learn which model is asked for. Its error
// is a *responses.Error where the body is to blame.
func (b *requestBody) model() (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	buffer := make([]byte, 4<<10)
	for !b.scan.found && b.broken() == nil && !b.ended {
		if len(b.head) >= maxHead {
			b.breaks(malformed("it does not name its model early enough"))
			break
		}
		n := b.look(buffer)
		b.head = append(b.head, buffer[:n]...)
		if len(buffer) < bufferSize {
			buffer = make([]byte, 2*len(buffer))
		}
	}
	if refusal := b.refused(); refusal != nil {
		return "", refusal
	}
	return b.scan.model, b.broken()
}

// look reads from the source and looks at what came. The caller holds mu.
func (b *requestBody) look(p []byte) int {
	n, err := b.source.Read(p)
	b.size.Add(int64(n))
	if scanErr := b.scan.feed(p[:n]); scanErr != nil {
		b.breaks(scanErr)
		return 0
	}
	b.read.Store(b.scan.read)
	b.wide.Store(b.scan.wide)
	if errors.Is(err, io.EOF) {
		b.ended, err = true, b.scan.end()
	}
	if err != nil {
		b.breaks(err)
	}
	return n
}

func (b *requestBody) breaks(err error) { b.fault.Store(&err) }

func (b *requestBody) broken() error {
	if err := b.fault.Load(); err != nil {
		return *err
	}
	return nil
}

// Read implements io.Reader.
func (b *requestBody) Read(p []byte) (n int, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case b.closed.Load():
		return 0, http.ErrBodyReadAfterClose
	case len(b.head) > 0:
		n = copy(p, b.head)
		b.head = b.head[n:]
	case b.broken() == nil && !b.ended:
		n = b.look(p)
	}
	if b.keep = b.keep && len(b.kept)+n <= maxReplay; b.keep {
		b.kept = append(b.kept, p[:n]...)
	} else {
		b.kept = nil
	}
	if len(b.head) > 0 {
		return n, nil
	}
	if err = b.broken(); err == nil && b.ended {
		err = io.EOF
	}
	return n, err
}

// Close makes a transport harmless that still reads.
func (b *requestBody) Close() error {
	b.closed.Store(true)
	return nil
}

// refused says why the body may not pass, nil if nothing is known against it.
func (b *requestBody) refused() *responses.Error {
	err := b.broken()
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return tooLarge()
	}
	if errors.Is(err, errBody) {
		return responses.Invalid("body", responses.CodeInvalidJSON, err.Error())
	}
	if errors.Is(err, errFeature) {
		e := forbidden(err.Error())
		e.Param, e.Hint = "body", "the operator can allow it with providers.NAME.allow_hosted"
		return e
	}
	return nil
}

// sending returns how much was sent so far. It does not wait for a reader.
func (b *requestBody) sending() sending {
	return sending{size: b.size.Load(), read: b.read.Load(), wide: b.wide.Load()}
}

// again returns the body to be sent once more, nil when it was not kept or not
// read to its end.
func (b *requestBody) again() io.Reader {
	if !b.mu.TryLock() {
		return nil // it is still being read
	}
	defer b.mu.Unlock()
	if !b.keep || !b.ended || b.broken() != nil || len(b.head) > 0 {
		return nil
	}
	return bytes.NewReader(b.kept)
}
