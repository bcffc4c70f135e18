package buckettest

import (
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// Weather is how the way to a server is.
type Weather int

const (
	Fair    Weather = iota
	Cut             // connections end without an answer
	Stalled         // no answer comes
	Denied          // 403
	Full            // 507
	Quota           // 403 with the code of a quota, as some servers have it
)

// Proxy stands before a server of buckets.
type Proxy struct {
	url string

	mu      sync.Mutex
	weather Weather
	changed chan struct{}
}

// Proxy starts a proxy that ends with the test, in fair weather.
func (s *Server) Proxy(t testing.TB) *Proxy {
	t.Helper()
	p := &Proxy{changed: make(chan struct{})}
	pass := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: s.address})
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.serve(pass, w, r) }))
	pass.ErrorLog = log.New(io.Discard, "", 0) // of clients that left
	t.Cleanup(func() { p.Set(Fair); front.Close() })
	p.url = strings.Replace(s.URL(), "http://"+s.address, front.URL, 1)
	return p
}

// URL is that of the bucket behind the proxy.
func (p *Proxy) URL() string { return p.url }

// Set changes the weather. What is stalled goes on.
func (p *Proxy) Set(w Weather) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.weather = w
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Proxy) serve(pass http.Handler, w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	weather, changed := p.weather, p.changed
	p.mu.Unlock()
	switch weather {
	case Cut:
		panic(http.ErrAbortHandler)
	case Stalled:
		select {
		case <-changed:
		case <-r.Context().Done():
		}
		pass.ServeHTTP(w, r)
	case Denied:
		refuse(w, http.StatusForbidden, "AccessDenied")
	case Full:
		refuse(w, http.StatusInsufficientStorage, "InsufficientStorage")
	case Quota:
		refuse(w, http.StatusForbidden, "QuotaExceeded")
	default:
		pass.ServeHTTP(w, r)
	}
}

func refuse(w http.ResponseWriter, status int, code string) {
	w.Header().Set("Content-Type", "application/xml")
	w.WriteHeader(status)
	_, _ = w.Write([]byte("<Error><Code>" + code + "</Code><Message>refused</Message></Error>")) // the client may have left
}
