package deliver_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holon/internal/redact"
	"holon/runner/agent/deliver"
	"holon/runner/agent/scheduler"
	"holon/runner/credentials"
	"holon/state"
	"holon/state/ledger"
	"holon/state/sqlite"
	"holon/test/expect"
	"holon/test/memory"
)

func TestMain(m *testing.M) {
	if home := os.Getenv(childEnv); home != "" {
		os.Exit(runChild(home))
	}
	goleak.VerifyTestMain(m)
}

// world is a ledger with the agents main and other, and a Deliverer whose clock moves by itself only.
type world struct {
	*deliver.Deliverer
	t     *testing.T
	home  string
	store ledger.Store
	steps *scheduler.Scheduler
	now   time.Time
}

func open(t *testing.T, change func(*deliver.Options)) *world {
	t.Helper()
	t.Parallel()
	w := &world{t: t, home: filepath.Join(memory.Dir(t), "home"), now: time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)}
	w.openIn(func() time.Time { return w.now }, change)
	t.Cleanup(func() { expect.NoError(t, w.store.Close()) })
	for _, id := range []string{"main", "other"} {
		_, err := w.steps.Create(t.Context(), scheduler.NewAgent{ID: id, Default: id == "main"})
		expect.NoError(t, err)
	}
	return w
}

func (w *world) openIn(now func() time.Time, change func(*deliver.Options)) {
	home, err := state.MakeHome(w.home, w.home)
	if err == nil {
		w.store, err = sqlite.Open(context.Background(), sqlite.Options{Path: home.LedgerPath()})
	}
	if err != nil {
		panic(err)
	}
	w.steps = scheduler.New(w.store, scheduler.Options{Owner: "test", Now: now, Rand: func() float64 { return 0 }})
	o := deliver.Options{Store: w.store, Steps: w.steps, Secrets: credentials.StoreIn(home), Known: &redact.Set{}, Now: now,
		Environ: os.Environ(), Log: slog.New(slog.DiscardHandler)}
	if change != nil {
		change(&o)
	}
	w.Deliverer = deliver.New(o)
}

// webhook is a binding of main to a URL of this machine.
func webhook(id, url string) scheduler.NewBinding {
	return scheduler.NewBinding{URL: url, OperatorBinding: ledger.OperatorBinding{ID: id, AgentID: "main",
		Transport: ledger.TransportWebhook, Auth: ledger.DeliveryAuth{Kind: ledger.AuthHMAC}, AllowPrivate: true}}
}

func (w *world) bind(n scheduler.NewBinding) scheduler.Bound {
	w.t.Helper()
	bound, err := w.Bind(w.t.Context(), n)
	expect.NoError(w.t, err)
	return bound
}

func (w *world) notify(agent, text string) {
	w.t.Helper()
	expect.NoError(w.t, w.steps.Notify(w.t.Context(), agent, text))
}

// deliveries are those of an agent, the oldest first.
func (w *world) deliveries(agent string) []ledger.Delivery {
	w.t.Helper()
	list, err := ledger.Read(w.t.Context(), w.store, func(v ledger.View) ([]ledger.Delivery, error) {
		return v.Deliveries(agent, 0)
	})
	expect.NoError(w.t, err)
	return list
}

// only is the only delivery of main.
func (w *world) only() ledger.Delivery {
	w.t.Helper()
	list := w.deliveries("main")
	if len(list) != 1 {
		w.t.Fatalf("deliveries %+v, want one", list)
	}
	return list[0]
}

// round makes what is due, then lets the longest back-off pass.
func (w *world) round() {
	w.t.Helper()
	expect.NoError(w.t, w.Round(w.t.Context()))
	w.now = w.now.Add(5 * time.Minute)
}

// request is what a receiver got.
type request struct {
	header http.Header
	body   []byte
}

// receiver keeps what it gets, and answers by a function of the number of the request, the first being 1.
type receiver struct {
	*httptest.Server
	mu  sync.Mutex
	got []request
}

func receive(t *testing.T, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	t.Helper()
	x := &receiver{}
	x.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		x.mu.Lock()
		x.got = append(x.got, request{r.Header, body})
		n := len(x.got)
		x.mu.Unlock()
		answer(n, w, r)
	}))
	t.Cleanup(x.Close)
	return x
}

func (x *receiver) requests() []request {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.got
}

func ok(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"id":"r-1"}`)) }

func isParam(err error, param string) bool {
	e, ok := errors.AsType[*state.Error](err)
	return ok && e.Param == param && e.Message != ""
}
