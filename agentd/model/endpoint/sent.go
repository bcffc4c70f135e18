package endpoint

import (
	"errors"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
)

// briefTransport forgets the body of a request once the answer begins. The
// transports of net/http keep it until the answer ends, while a model thinks for
// long about a conversation that may be large.
type briefTransport struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t briefTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.GetBody == nil {
		return t.RoundTripper.RoundTrip(r)
	}
	var again atomic.Pointer[func() (io.ReadCloser, error)]
	again.Store(&r.GetBody)
	sent := *r
	sent.Body = &sentBody{body: r.Body}
	sent.GetBody = func() (io.ReadCloser, error) {
		get := again.Load()
		if get == nil {
			return nil, errors.New("the answer to the request has begun")
		}
		body, err := (*get)()
		return &sentBody{body: body}, err
	}
	defer again.Store(nil)
	return t.RoundTripper.RoundTrip(&sent)
}

// sentBody is a body that is forgotten when it is closed.
type sentBody struct {
	mu   sync.Mutex // a transport may close a body that it reads
	body io.ReadCloser
}

// Read implements io.Reader.
func (b *sentBody) Read(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.body == nil {
		return 0, http.ErrBodyReadAfterClose
	}
	return b.body.Read(p)
}

// Close implements io.Closer.
func (b *sentBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.body == nil {
		return nil
	}
	err := b.body.Close()
	b.body = nil
	return err
}
