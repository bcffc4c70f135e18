package conform

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"holon/test/conform/schema"
)

// Target is a server to be checked.
type Target struct {
	BaseURL string // above /responses, for example http://127.0.0.1:8080/v1
	Socket  string // Unix socket to reach it by, "" for the host of BaseURL
	Token   string // bearer token; a server that wants none ignores it
	Model   string // answers as the package comment says
}

// Case is one check of a server.
type Case struct {
	ID    string
	Kind  Kind
	About string // what must hold

	run func(t *trial)
}

// Kind says where a case comes from.
type Kind string

// The kinds. Official cases have the ids of the protocol's own compliance suite
// and demand what it demands. The others are what clients rely on besides:
// Protocol is in the text of the protocol, Service in what OpenAI's service adds
// to it (retrieval, background, cancelling).
const (
	Official Kind = "official"
	Protocol Kind = "protocol"
	Service  Kind = "service"
	// Extension cases are about what only Holon has.
	Extension Kind = "extension"
)

// Cases returns all cases: the official ones first, in their order.
func Cases() []Case {
	return slices.Concat(officialHTTP(), officialLocal(), officialSocket(), socketCases(), acceptance(), refusals(),
		streaming(), toolCases(), stateCases(), serviceCases(), extensionCases())
}

type Result struct {
	Case     Case
	Err      error // nil when it passed
	Duration time.Duration
}

// Suite runs cases against one server.
type Suite struct {
	Target
	http *http.Client
}

// New makes a suite for a server. Nothing is sent yet; the caller must Close it.
func New(t Target) *Suite {
	t.BaseURL = strings.TrimRight(t.BaseURL, "/")
	t.Token = cmp.Or(t.Token, "conformance")
	// Bytes that arrive together are read together, as by the official runner,
	// whose reader depends on it.
	transport := &http.Transport{ReadBufferSize: 1 << 20, MaxIdleConnsPerHost: 64, IdleConnTimeout: time.Minute}
	if t.Socket != "" {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", t.Socket)
		}
	}
	return &Suite{Target: t, http: &http.Client{Transport: transport}}
}

func (s *Suite) Close() { s.http.CloseIdleConnections() }

// trial is one run of a case. As in a test, what is wrong is noted, and what makes the rest senseless ends the run.
type trial struct {
	*Suite
	ctx  context.Context  // of the run
	doc  *schema.Document // says what has to be there and of which type; the rules of this package say what it cannot
	errs []error
}

// expect notes an error unless ok.
func (t *trial) expect(ok bool, format string, args ...any) {
	if !ok {
		t.errs = append(t.errs, fmt.Errorf(format, args...))
	}
}

// demand is expect for what the rest of the case needs.
func (t *trial) demand(ok bool, format string, args ...any) {
	if t.expect(ok, format, args...); !ok {
		runtime.Goexit()
	}
}

func (t *trial) must(err error) { t.demand(err == nil, "%w", err) }

// check runs one case. The error lists everything that is wrong.
func (s *Suite) check(ctx context.Context, c Case) error {
	t := &trial{Suite: s, ctx: ctx}
	ended := make(chan struct{})
	go func() { // since demand ends it
		defer close(ended)
		var err error
		t.doc, err = schema.Official()
		t.must(err)
		c.run(t)
	}()
	<-ended
	return errors.Join(t.errs...)
}

// All starts all cases at once, as the official runner does, and returns their
// results in the order of the cases.
func (s *Suite) All(ctx context.Context, cases []Case) []Result {
	results := make([]Result, len(cases))
	var running sync.WaitGroup
	for i, c := range cases {
		running.Go(func() {
			start := time.Now()
			err := s.check(ctx, c)
			results[i] = Result{Case: c, Err: err, Duration: time.Since(start)}
		})
	}
	running.Wait()
	return results
}
