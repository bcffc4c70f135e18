package doctor_test

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"holon/runner"
	"holon/runner/credentials"
	"holon/runner/doctor"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// agentd is the program that the tests share, and version what it says of itself.
var agentd, version string

func TestMain(m *testing.M) {
	agentd = programs.Must("agentd")
	out, err := exec.Command(agentd, "version").Output()
	if err != nil {
		panic(err)
	}
	version = strings.TrimPrefix(strings.TrimSpace(string(out)), "agentd ")
	goleak.VerifyTestMain(m)
}

const image = "holon/base:latest"

// patient is a doctor with a real agentd for a scripted model and a home of the test's own.
func patient(t *testing.T) (*doctor.Doctor, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "holon-doctor-") // t.TempDir is too long for sockets
	expect.NoError(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	home, work := filepath.Join(dir, "home"), filepath.Join(dir, "work")
	expect.NoError(t, os.Mkdir(work, 0o755))
	expect.NoError(t, os.WriteFile(filepath.Join(work, "Makefile"), nil, 0o644))
	loaded := settings.Load(settings.Sources{File: filepath.Join(home, "config.json")})
	loaded.Settings.Model = "scripted/demo"
	found, err := state.FindHome(home, "")
	expect.NoError(t, err)
	return &doctor.Doctor{
		HolonHome: home, Version: version, Image: image, Workspace: work, Loaded: loaded, Refs: []string{"scripted/demo"}, Chosen: true,
		Agentd: func() (string, error) { return agentd, nil },
		Engine: func(state.Home) (engine.Engine, error) { return docker.New("", "") },
		Providers: &modelaccess.Host{Settings: &loaded.Settings,
			Keys: &credentials.Keys{Store: credentials.StoreIn(found)}},
	}, home
}

// wrapEngine gives the doctor what wrap makes of its engine.
func wrapEngine(d *doctor.Doctor, wrap func(engine.Engine) engine.Engine) {
	inner := d.Engine
	d.Engine = func(h state.Home) (engine.Engine, error) {
		e, err := inner(h)
		return wrap(e), err
	}
}

func examine(ctx context.Context, d *doctor.Doctor) (list []doctor.Result, well bool) {
	well = d.Examine(ctx, func(r doctor.Result) { list = append(list, r) })
	return list, well
}

// statuses joins the statuses of each check.
func statuses(list []doctor.Result) map[string]string {
	m := map[string]string{}
	for _, r := range list {
		m[r.Check] = strings.TrimPrefix(m[r.Check]+","+r.Status, ",")
	}
	return m
}

func text(list []doctor.Result) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.Status + " " + r.Check + ": " + r.Seen + " → " + r.Remedy + "\n")
	}
	return b.String()
}

// needsEngine skips the test where no engine with the image answers.
func needsEngine(t *testing.T) *docker.Engine {
	t.Helper()
	eng, err := docker.New("", "")
	expect.NoError(t, err)
	t.Cleanup(func() { eng.Close() })
	if _, err := eng.Check(t.Context()); err != nil {
		t.Skipf("no Docker engine answers: %v", err)
	}
	return eng
}

// All that the doctor promises of a machine on which everything is right, and
// that nothing is left of its visit.
func TestHealthy(t *testing.T) {
	t.Parallel()
	eng := needsEngine(t)
	d, home := patient(t)
	list, well := examine(t.Context(), d)
	if !well {
		t.Fatalf("something fails:\n%s", text(list))
	}
	order := []string{"home", "system", "sockets", "disk", "git", "agentd", "settings", "engine", "api", "support", "image", "container",
		"cgroups", "isolation", "user", "mounts", "clock", "agent", "tools", "credentials", "models"}
	var got []string
	for _, r := range list {
		got = append(got, r.Check)
		if r.Status != "ok" && r.Check != "container" { // the image may have no git
			t.Errorf("%s is %s: %s", r.Check, r.Status, r.Seen)
		}
	}
	if strings.Join(got, " ") != strings.Join(order, " ") {
		t.Errorf("checks %v", got)
	}
	leavesNothing(t, eng, home)
}

// leavesNothing checks that neither the home nor a container is left.
func leavesNothing(t *testing.T, eng *docker.Engine, home string) {
	t.Helper()
	if _, err := os.Lstat(home); !os.IsNotExist(err) {
		t.Errorf("the home is left: %v", err)
	}
	left, err := eng.List(t.Context(), map[string]string{runner.LabelHome: home})
	if err != nil || len(left) != 0 {
		t.Errorf("containers are left: %v, %v", left, err)
	}
}

// The doctor is sent away: everything is reported, and nothing is left.
func TestCancelled(t *testing.T) {
	t.Parallel()
	eng := needsEngine(t)
	d, home := patient(t)
	ctx, cancel := context.WithCancel(t.Context())
	wrapEngine(d, func(e engine.Engine) engine.Engine { return leaving{e, cancel} })
	list, well := examine(ctx, d)
	if got := statuses(list); well || got["container"] != "failed" {
		t.Errorf("well %t:\n%s", well, text(list))
	}
	leavesNothing(t, eng, home)
}

// leaving is a real engine whose caller goes when a container was started.
type leaving struct {
	engine.Engine
	depart func()
}

func (l leaving) Start(ctx context.Context, h engine.Handle) error {
	err := l.Engine.Start(ctx, h)
	l.depart()
	return err
}

// A daemon that is too old is named with what is needed.
func TestOldAPI(t *testing.T) {
	t.Parallel()
	d, _ := patient(t)
	path := filepath.Join(filepath.Dir(d.HolonHome), "d.sock")
	listener, err := net.Listen("unix", path)
	expect.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", "1.40")
		w.Header().Set("Ostype", "linux")
	}))
	server.Listener.Close()
	server.Listener = listener
	server.Start()
	defer server.Close()
	d.Engine = func(state.Home) (engine.Engine, error) { return docker.New("unix://"+path, "") }
	list, well := examine(t.Context(), d)
	got := statuses(list)
	expect.Equal(t, "well", well, false)
	expect.Equal(t, "got[engine]", got["engine"], "failed")
	expect.Equal(t, "got[api]", got["api"], "skipped")
	expect.Equal(t, "got[mounts]", got["mounts"], "skipped")
	expect.Equal(t, "got[git]", got["git"], "ok")
	if report := text(list); !strings.Contains(report,
		"speaks API 1.40, at least 1.41 is needed → install Docker 20.10 or newer") {
		t.Errorf("the report:\n%s", report)
	}
}

// Files that do not pass between host and container are noticed: here the engine
// shows the container another directory, as one on another machine would.
func TestBlindMounts(t *testing.T) {
	t.Parallel()
	needsEngine(t)
	d, _ := patient(t)
	elsewhere := filepath.Join(filepath.Dir(d.HolonHome), "elsewhere")
	expect.NoError(t, os.Mkdir(elsewhere, 0o777))
	expect.NoError(t, os.Chmod(elsewhere, 0o777))
	wrapEngine(d, func(e engine.Engine) engine.Engine { return misled{e, elsewhere} })
	list, well := examine(t.Context(), d)
	got := statuses(list)
	expect.Equal(t, "well", well, false)
	expect.Equal(t, "got[mounts]", got["mounts"], "failed")
	expect.Equal(t, "got[user]", got["user"], "failed")
	if got["container"] == "failed" {
		t.Error(`got["container"] = "failed", want another value`)
	}
}

// misled is a real engine that mounts another directory than it is asked to.
type misled struct {
	engine.Engine
	dir string
}

func (m misled) Create(ctx context.Context, spec engine.Spec) (engine.Handle, error) {
	for i := range spec.Mounts {
		if spec.Mounts[i].Target == "/holon/doctor" {
			spec.Mounts[i].Source = m.dir
		}
	}
	return m.Engine.Create(ctx, spec)
}

// The doctor names each limit that the engine does not enforce, unless it was accepted, and an agentd of another build.
func TestWeakIsolation(t *testing.T) {
	t.Parallel()
	needsEngine(t)
	d, _ := patient(t)
	wrapEngine(d, func(e engine.Engine) engine.Engine { return lax{e} })
	list, well := examine(t.Context(), d)
	got := statuses(list)
	expect.Equal(t, "well", well, false)
	expect.Equal(t, "got[cgroups]", got["cgroups"], "failed")
	expect.Equal(t, "got[isolation]", got["isolation"], "failed")
	expect.Contains(t, "the report", text(list), "--accept-weaker seccomp")
	expect.NoError(t, os.WriteFile(filepath.Join(d.Workspace, "mix.exs"), nil, 0o644)) // of which the image has nothing
	d.Accept, d.Version = []string{"pids", "seccomp"}, "another"
	list, well = examine(t.Context(), d)
	got = statuses(list)
	expect.Equal(t, "accepted: well", well, true)
	expect.Equal(t, "accepted: got[cgroups]", got["cgroups"], "warning")
	expect.Equal(t, "accepted: got[isolation]", got["isolation"], "warning")
	expect.Equal(t, "a program that the workspace needs", got["tools"], "warning")
	expect.Equal(t, "an agentd of another build", got["agent"], "warning")
}

// lax is a real engine that says of itself that it enforces less.
type lax struct{ engine.Engine }

func (l lax) Inspect(ctx context.Context, h engine.Handle) (engine.State, error) {
	s, err := l.Engine.Inspect(ctx, h)
	s.Isolation.Pids = engine.Axis{Level: engine.NotEnforced, Value: "unlimited"}
	s.Isolation.Seccomp = engine.Axis{Level: engine.NotEnforced, Value: "none"}
	return s, err
}
