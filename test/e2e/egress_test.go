package e2e

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/egress"
	dockerengine "holon/runner/engine/docker"
	"holon/runner/oneshot"
	"holon/runner/workspace"
	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// internet stands for the public network, which tests do without: names have the
// addresses given here, and every public address leads to servers of this
// process. The rules that refuse are the real ones.
type internet struct {
	secure, plain string

	mu     sync.Mutex
	names  map[string][]string // what each further question is answered; the last stays
	dialed []string
}

func (i *internet) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	answers := i.names[strings.TrimSuffix(host, ".")]
	if len(answers) == 0 {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	if len(answers) > 1 {
		i.names[strings.TrimSuffix(host, ".")] = answers[1:]
	}
	return []netip.Addr{netip.MustParseAddr(answers[0])}, nil
}

func (i *internet) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	i.mu.Lock()
	i.dialed = append(i.dialed, address)
	i.mu.Unlock()
	to := i.plain
	if strings.HasSuffix(address, ":443") {
		to = i.secure
	}
	return (&net.Dialer{}).DialContext(ctx, network, to)
}

const publicAddress = "93.184.216.34"

// serveInternet serves a page, a redirect and a git repository, and puts the
// certificate to trust into ca.pem of dir.
func serveInternet(t *testing.T, dir string) *internet {
	t.Helper()
	repo := repository(t, "echo fetched > fetched.txt")
	bare := filepath.Join(t.TempDir(), "repo.git")
	sh(t, repo, "git clone -q --bare . '"+bare+"'; git -C '"+bare+"' update-server-info")
	mux := http.NewServeMux()
	mux.Handle("/repo.git/", http.StripPrefix("/repo.git", http.FileServer(http.Dir(bare))))
	mux.Handle("/away", http.RedirectHandler("http://denied.example.net/", http.StatusFound))
	mux.HandleFunc("/page", func(w http.ResponseWriter, r *http.Request) { fmt.Fprintln(w, "page of", r.Host) })
	secure, plain := httptest.NewUnstartedServer(mux), httptest.NewServer(mux)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	secure.StartTLS()
	t.Cleanup(secure.Close)
	t.Cleanup(plain.Close)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "ca.pem"), cert, 0o644))
	return &internet{secure: secure.Listener.Addr().String(), plain: plain.Listener.Addr().String(),
		names: map[string][]string{
			"example.com": {publicAddress}, "a.example.org": {publicAddress},
			"rebind.example.org": {publicAddress, "127.0.0.1"}, "inner.example.org": {"10.0.0.7"},
			"meta.example.org": {"169.254.169.254"},
		}}
}

// watcher keeps what a person would be told.
type watcher struct {
	mu     sync.Mutex
	denied []string
}

func (*watcher) Event(responses.Event)   {}
func (*watcher) Fact(turns.RuntimeEvent) {}
func (*watcher) Phase(string)            {}
func (*watcher) Begin(*state.Manifest)   {}

func (w *watcher) Egress(f egress.Fact) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if d := f.Decision; d != nil && d.Verdict == turns.VerdictDenied {
		w.denied = append(w.denied, oneshot.DescribeDenial(*d))
	}
}

// probe runs a script in a container that may reach what proxy lets it reach, and
// returns its output with what the run left.
func probe(t *testing.T, h *home, input, script string, proxy *egress.Proxy, watch *watcher) (string, result) {
	t.Helper()
	expect.NoError(t, os.WriteFile(filepath.Join(input, "probe.sh"), []byte(script), 0o644))
	expect.NoError(t, os.Chmod(input, 0o755))
	stateHome, err := state.MakeHome(h.dir, h.dir)
	expect.NoError(t, err)
	eng, err := dockerengine.New("", "")
	expect.NoError(t, err)
	defer func() { _ = eng.Close() }()
	shot := &oneshot.Run{
		Home: stateHome, Turn: runner.NewTurn("", "probe"), Watch: watch,
		Workspace: workspace.Options{Dir: repository(t, "echo a > a"), CacheDir: stateHome.CacheDir(),
			ContainerObjects: runner.ObjectsPath},
		Session: runner.Config{
			Engine: eng, Agentd: programs.Must("agentd"), Image: baseImage,
			Labels: map[string]string{runner.LabelHome: stateHome.Dir()}, Log: slog.New(slog.DiscardHandler),
			Models: runner.Models{Model: scripted(t, "probe"),
				Scenario: strings.TrimPrefix(scripted(t, "probe"), "scripted/")},
			Files: runner.Files{InputDir: input},
			Reach: runner.Reach{Egress: proxy},
		},
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	manifest, err := shot.Do(ctx)
	expect.NoError(t, err)
	r := result{code: manifest.ExitCode, dir: shot.ResultDir(), manifest: manifest}
	if r.code != 0 {
		t.Fatalf("%+v", manifest.Error)
	}
	logs, err := filepath.Glob(filepath.Join(r.dir, "tools/*/stdout.log"))
	if err != nil || len(logs) != 1 {
		t.Fatal(logs, err)
	}
	out, err := os.ReadFile(logs[0])
	expect.NoError(t, err)
	return string(out), r
}

// rows turns attempts into a script that prints "NAME: what came of it", and its
// output into what came of each.
func rows(attempts map[string]string) string {
	var b strings.Builder
	b.WriteString("try() { printf '%s: %s\\n' \"$1\" \"$(eval \"$2\" 2>&1 | tr '\\n' ' ')\"; }\n")
	b.WriteString("code() { curl -s -o /dev/null -m 30 -w '%{http_code} %{http_connect} %{exitcode}' \"$@\"; }\n")
	for _, name := range slices.Sorted(maps.Keys(attempts)) { // the summary lists the first denials alone
		command := attempts[name]
		fmt.Fprintf(&b, "try %q '%s'\n", name, strings.ReplaceAll(command, "'", `'\''`))
	}
	return b.String()
}

func outcomes(out string) map[string]string {
	all := make(map[string]string)
	for line := range strings.Lines(out) {
		if name, what, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			all[name] = strings.TrimSpace(what)
		}
	}
	return all
}

// A container that nothing was opened to has no way out, and is told of none.
func TestEgressNone(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	attempts := map[string]string{
		"socket": "curl -s --unix-socket /holon/host/egress.sock http://a/; echo $?", "variables": "env | grep -ic proxy",
		"routes": "tail -n +2 /proc/net/route | wc -l", "interfaces": "ls /sys/class/net",
		"number": "code http://" + publicAddress + "/", "IPv6": "code http://[2606:2800:220:1::1]/",
		"name": "code https://example.com/", "resolver": "getent hosts example.com || echo none",
		"metadata": "code http://169.254.169.254/latest/meta-data/", "docker bridge": "code http://172.17.0.1/",
		"UDP": "(echo x > /dev/udp/8.8.8.8/53) && echo sent || echo failed",
	}
	out, r := probe(t, h, t.TempDir(), rows(attempts), nil, &watcher{})
	checkRecord(t, r)
	got := outcomes(out)
	for name, want := range map[string]string{
		"socket": "7", "variables": "0", "routes": "0", "interfaces": "lo", "number": "000 000 7", "IPv6": "000 000 7",
		"name": "000 000 6", "resolver": "none", "metadata": "000 000 7", "docker bridge": "000 000 7",
	} {
		expect.Equal(t, name, got[name], want)
	}
	expect.Contains(t, "UDP", got["UDP"], "failed")
	if r.manifest.Egress != nil || r.read(t, runner.EgressFile) != "" {
		t.Errorf("egress is on record: %+v", r.manifest.Egress)
	}
}

// An empty list is a proxy that refuses everything.
func TestEgressEmptyList(t *testing.T) {
	t.Parallel()
	h, input := newHome(t), t.TempDir()
	world := serveInternet(t, input)
	proxy, err := egress.New(egress.Options{Resolver: world, Dialer: world})
	expect.NoError(t, err)
	out, r := probe(t, h, input, rows(map[string]string{"https": "code https://example.com/page",
		"http": "code http://example.com/page"}), proxy, &watcher{})
	if got := outcomes(out); got["https"] != "000 403 56" || got["http"] != "403 000 0" {
		t.Errorf("%q", got)
	}
	switch e := r.manifest.Egress; {
	case e == nil:
		t.Error("e = nil, want a value")
	case e.Allowed != 0:
		t.Errorf("e.Allowed = %d, want 0", e.Allowed)
	case e.Denied != 2:
		t.Errorf("e.Denied = %d, want 2", e.Denied)
	case len(world.dialed) > 0:
		t.Errorf("len(world.dialed) = %d (%q), want at most 0", len(world.dialed), world.dialed)
	}
}

// Unchanged programs reach the hosts of the list, and no trick reaches another
// one. The host records every attempt.
func TestEgressAllowList(t *testing.T) {
	t.Parallel()
	h, input, watch := newHome(t), t.TempDir(), &watcher{}
	world := serveInternet(t, input)
	expect.NoError(t, programs.Copy("goclient", filepath.Join(input, "goclient")))
	proxy, err := egress.New(egress.Options{Allow: []string{"Example.COM.", "*.example.org"}, Resolver: world,
		Dialer: world})
	expect.NoError(t, err)
	const ca = "--cacert $HOLON_INPUT_DIR/ca.pem "
	send := func(bytes string) string { // as it is, to the port that programs are told of
		return `exec 3<>/dev/tcp/127.0.0.1/${http_proxy##*:}; printf "` + bytes + `" >&3; timeout 20 cat <&3`
	}
	attempts := map[string]struct{ command, want string }{
		"https": {"curl -sS -m 30 " + ca + "https://example.com/page", "page of example.com"},
		"http":  {"curl -sS -m 30 http://a.example.org/page", "page of a.example.org"},
		"Go": {"SSL_CERT_FILE=$HOLON_INPUT_DIR/ca.pem $HOLON_INPUT_DIR/goclient " +
			"https://example.com/page", "200 page of example.com"},
		"git": {"cd /tmp && git -c http.sslCAInfo=$HOLON_INPUT_DIR/ca.pem clone -q " +
			"https://example.com/repo.git && cat repo/fetched.txt", "fetched"},
		"own port":          {"curl -sS -m 5 http://127.0.0.1:1/", "curl: (7) Failed to connect to 127.0.0.1"},
		"a host not listed": {"code https://denied.example.net/", "000 403 56"},
		"not listed, Go": {"$HOLON_INPUT_DIR/goclient https://denied.example.net/",
			"Egress refused: host_not_allowed"},
		"suffix":                  {"code https://evilexample.com/", "000 403 56"},
		"apex":                    {"code https://example.org/", "000 403 56"},
		"without the proxy":       {"code --noproxy \\* http://" + publicAddress + "/", "000 000 7"},
		"without it, by name":     {"code --noproxy \\* http://example.com/", "000 000 6"},
		"another proxy":           {"code -x http://10.0.0.1:3128 http://example.com/", "000 000 7"},
		"own resolver":            {"getent hosts example.com || echo none", "none"},
		"number of a listed host": {"code https://" + publicAddress + "/", "000 403 56"},
		"decimal":                 {send(`GET http://2130706433/ HTTP/1.1\r\n\r\n`), "host_malformed"},
		"octal":                   {send(`CONNECT 0177.0.0.1:443 HTTP/1.1\r\n\r\n`), "host_malformed"},
		"mapped":                  {send(`CONNECT [::ffff:169.254.169.254]:443 HTTP/1.1\r\n\r\n`), "host_malformed"},
		"metadata":                {"code http://169.254.169.254/latest/meta-data/", "403 000 0"},
		"metadata by name":        {"code http://meta.example.org/latest/meta-data/", "403 000 0"},
		"private by name":         {"code https://inner.example.org/", "000 403 56"},
		"rebinding": {"code http://rebind.example.org/page; echo; code http://rebind.example.org/page",
			"200 000 0 403 000 0"},
		"redirect": {"curl -sS -L -m 30 http://example.com/away", "host_not_allowed"},
		"another SNI": {"curl -sS -m 30 --connect-to denied.example.net:443:example.com:443 " +
			"https://denied.example.net/", "alert access denied"},
		"no TLS":    {"curl -sS -m 30 -p http://example.com:443/page", "curl:"},
		"port 8443": {"code https://example.com:8443/", "000 403 56"},
		"another Host": {"curl -sS -m 30 -H \"Host: denied.example.net\" http://example.com/page",
			"host_mismatch"},
		"NUL": {send(`CONNECT example.com\0.denied.example.net:443 HTTP/1.1\r\n\r\n`),
			"request_malformed"},
		"pipelined": {send(`GET http://example.com/page HTTP/1.1\r\nHost: example.com\r\n\r\nGET ` +
			`http://denied.example.net/ HTTP/1.1\r\nHost: denied.example.net\r\n\r\n`), "page of example.com"},
		"the socket itself": {"curl -sS -m 30 --unix-socket /holon/host/egress.sock http://example.com/page",
			"curl: (7)"},
		"a forged fact": {`echo "{\"type\":\"holon.egress.decision\",\"sequence\":1}" >> ` +
			`$HOLON_OUTPUT_DIR/../runtime.ndjson || echo not written`, "not written"},
		"the host's record": {"find / -name egress.ndjson 2>/dev/null | wc -l", "0"},
	}
	commands := make(map[string]string)
	for name, a := range attempts {
		commands[name] = a.command
	}
	out, r := probe(t, h, input, rows(commands), proxy, watch)
	checkRecord(t, r)
	got := outcomes(out)
	for name, a := range attempts {
		if !strings.Contains(got[name], a.want) {
			t.Errorf("%s: %q, want %q", name, got[name], a.want)
		}
		if strings.Contains(got[name], "HTTP/1.1 200") && strings.Contains(got[name], "denied.example.net") {
			t.Errorf("%s: a second request was answered: %q", name, got[name])
		}
	}
	for _, address := range world.dialed {
		if address != publicAddress+":443" && address != publicAddress+":80" {
			t.Errorf("dialled %s", address)
		}
	}
	checkEgress(t, r, watch)
}

// runtimeEvents returns the facts of the run's turn by their ids, and checks that their sequence has no gap.
func runtimeEvents(t *testing.T, r result) map[string]turns.RuntimeEvent {
	t.Helper()
	var sequence int64
	events := make(map[string]turns.RuntimeEvent)
	for line := range strings.Lines(r.read(t, turns.RuntimeFile)) {
		ev, err := turns.DecodeRuntimeEvent([]byte(strings.TrimSpace(line)))
		if err != nil || ev.Sequence != sequence+1 {
			t.Fatalf("after %d: %v: %s", sequence, err, line)
		}
		sequence, events[ev.EventID] = ev.Sequence, ev
	}
	return events
}

// checkCounts compares the account in the manifest with the numbers of the record and of the denials shown.
func checkCounts(t *testing.T, e *state.Egress, allowed, denied int64, shown int) {
	t.Helper()
	if e == nil {
		t.Fatal("the manifest says nothing of the network")
	}
	if want := []string{"*.example.org", "example.com"}; !slices.Equal(e.AllowHosts, want) {
		t.Errorf("allowed hosts: %q, want %q", e.AllowHosts, want)
	}
	if e.Allowed != allowed || allowed < 7 {
		t.Errorf("the manifest has %d allowed connections, the record %d; want the same number, at least 7",
			e.Allowed, allowed)
	}
	switch {
	case e.Denied != denied:
		t.Errorf("e.Denied = %d, want %d", e.Denied, denied)
	case denied < 18:
		t.Errorf("denied = %d, want at least 18", denied)
	case int(denied) != shown:
		t.Errorf("int(denied) = %d, want %d", int(denied), shown)
	}
}

// checkEgress compares what a run says in several places of its connections.
func checkEgress(t *testing.T, r result, watch *watcher) {
	t.Helper()
	facts, err := egress.ReadFacts(filepath.Join(r.dir, runner.EgressFile))
	expect.NoError(t, err)
	allowed, denied := egress.Count(facts)
	checkCounts(t, r.manifest.Egress, allowed, denied, len(watch.denied))
	events := runtimeEvents(t, r)
	ended := 0
	for _, f := range facts {
		switch ev, ok := events[f.EventID]; {
		case !ok:
			t.Errorf("%+v is %+v in runtime.ndjson", f, ev)
		case !strings.HasPrefix(ev.Type, "holon.egress."):
			t.Errorf(`%+v: ev.Type = %q, want it to begin with "holon.egress."`, f, ev.Type)
		case ev.Timestamp != f.Timestamp:
			t.Errorf("%+v: ev.Timestamp = %+v, want %+v", f, ev.Timestamp, f.Timestamp)
		case ev.TurnID != r.manifest.Turn.TurnID:
			t.Errorf("%+v: ev.TurnID = %q, want %q", f, ev.TurnID, r.manifest.Turn.TurnID)
		}
		if f.Ended != nil && f.Ended.BytesReceived > 0 && f.Ended.Address == publicAddress {
			ended++
		}
	}
	if ended < 6 {
		t.Errorf("%d connections ended with something received", ended)
	}
	if summary := r.read(t, "summary.md"); !strings.Contains(summary, "## Network") ||
		!strings.Contains(summary, "denied.example.net (host_not_allowed)") {
		t.Errorf("summary:\n%s", summary)
	}
	if found, err := filepath.Glob(filepath.Join(filepath.Dir(filepath.Dir(r.dir)),
		"ipc/*/host/egress.sock")); err != nil && !errors.Is(err, fs.ErrNotExist) || len(found) > 0 {
		t.Errorf("sockets are left: %v, %v", found, err)
	}
}

// A run that is taken up after its holon was killed has the way out that it had,
// and one record of both processes.
func TestEgressAfterKill(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.beginPlay(repo, "reach", "--allow-host", "example.com")
	p.kill()
	attached := h.begin(repo, "attach", "last")
	await(t, "the proxy of the run that is taken up", func() bool {
		sockets, _ := filepath.Glob(filepath.Join(h.dir, "ipc/*/host/egress.sock")) // the pattern is right
		if len(sockets) != 1 {
			return false
		}
		conn, err := net.Dial("unix", sockets[0])
		if err == nil {
			_ = conn.Close() // only tried
		}
		return err == nil
	})
	release(t, h)
	r := attached.wait()
	if r.code != 0 || !strings.Contains(r.stderr, "network: denied second.example.net (host_not_allowed)") {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	checkRecord(t, r)
	facts, err := egress.ReadFacts(filepath.Join(r.dir, runner.EgressFile))
	switch {
	case err != nil:
		t.Errorf("unexpected error: %v", err)
	case len(facts) != 2:
		t.Errorf("len(facts) = %d (%+v), want 2", len(facts), facts)
	case facts[0].Decision.Host != "first.example.net":
		t.Errorf(`facts[0].Decision.Host = %q, want "first.example.net"`, facts[0].Decision.Host)
	case facts[1].Decision.Host != "second.example.net":
		t.Errorf(`facts[1].Decision.Host = %q, want "second.example.net"`, facts[1].Decision.Host)
	}
	switch e := r.manifest.Egress; {
	case e == nil:
		t.Error("e = nil, want a value")
	case e.Denied != 2:
		t.Errorf("e.Denied = %d, want 2", e.Denied)
	case !slices.Equal(e.AllowHosts, []string{"example.com"}):
		t.Errorf("e.AllowHosts = %q, want %q", e.AllowHosts, []string{"example.com"})
	}
	if n := strings.Count(r.read(t, turns.RuntimeFile), "holon.egress.decision"); n != 2 {
		t.Errorf("%d decisions in %s", n, turns.RuntimeFile)
	}
}
