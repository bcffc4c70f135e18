package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"holon/state"
	"holon/test/expect"
)

// The zero Spec gets the strict defaults; they are promised to users, so they
// are spelled out here once more.
func TestDefaults(t *testing.T) {
	spec, err := Spec{Name: "run", Args: []string{"/agentd"}}.Complete()
	expect.NoError(t, err)
	want := Spec{
		Name: "run", Args: []string{"/agentd"}, User: &User{UID: os.Getuid(), GID: os.Getgid()},
		Memory: 2147483648, Network: "none",
	}
	if diff := cmp.Diff(want, spec); diff != "" {
		t.Error(diff)
	}
}

func TestErrorsHideSecrets(t *testing.T) {
	for _, pair := range []string{"KEY=sec\x00ret", "=secret", "KEY=" + strings.Repeat("secret", 1<<15)} {
		_, err := Spec{Name: "run", Args: []string{"/agentd"}, Env: []string{pair}}.Complete()
		if !state.IsCode(err, CodeInvalidSpec) || strings.Contains(err.Error(), "sec") {
			t.Errorf("error = %.200v", err)
		}
	}
}

func TestHostPath(t *testing.T) {
	mounts := []Mount{{Source: "/h/ws", Target: "/ws"}, {Source: "/h/in", Target: "/ws/in"},
		{Source: "/h/sock", Target: "/ipc/a.sock"}}
	for target, want := range map[string]string{
		"/ws": "/h/ws", "/ws/a/b": "/h/ws/a/b", "/ws/in/x": "/h/in/x", "/ws/inner": "/h/ws/inner",
		"/ipc/a.sock": "/h/sock", "/ws/../ws/a": "/h/ws/a",
		"/wsx": "", "/ipc": "", "/": "", "/ws/../etc/passwd": "", "/ws/in/../../etc": "",
	} {
		if got, ok := HostPath(mounts, target); got != want || ok != (want != "") {
			t.Errorf("HostPath(%q) = %q, %v, want %q", target, got, ok, want)
		}
	}
}

// For every target the path is within the source of one of the mounts.
func FuzzHostPath(f *testing.F) {
	for _, seed := range []string{"/a", "/a/../..", "/a/b/../../../etc", "a/..//", "/a/./b/", "/a\x00/b", ""} {
		f.Add(seed)
	}
	mounts := []Mount{{Source: "/host/a", Target: "/a"}, {Source: "/host/b", Target: "/a/b"}}
	f.Fuzz(func(t *testing.T, target string) {
		got, ok := HostPath(mounts, target)
		if !ok {
			return
		}
		relA, errA := filepath.Rel("/host/a", got)
		relB, errB := filepath.Rel("/host/b", got)
		inA, inB := errA == nil && filepath.IsLocal(relA), errB == nil && filepath.IsLocal(relB)
		if !inA && !inB {
			t.Errorf("HostPath(%q) = %q", target, got)
		}
	})
}

func FuzzTail(f *testing.F) {
	f.Add([]byte("hello world"), int64(4), 3)
	f.Add([]byte("hello"), int64(0), 1)
	f.Add([]byte("hello"), int64(-7), 2)
	f.Add(bytes.Repeat([]byte("x"), 100), int64(7), 7)
	f.Fuzz(func(t *testing.T, data []byte, limit int64, step int) {
		tail := NewTail(limit)
		for rest := data; len(rest) > 0; {
			n := min(max(step, 1), len(rest))
			if written, err := tail.Write(rest[:n]); written != n || err != nil {
				t.Fatalf("Write = %d, %v", written, err)
			}
			rest = rest[n:]
		}
		want := data[max(0, len(data)-int(min(max(limit, 0), maxTail))):]
		if !bytes.Equal(tail.Bytes(), want) {
			t.Errorf("tail = %q, want %q", tail.Bytes(), want)
		}
	})
}

func TestCheckHandle(t *testing.T) {
	good := Handle{Version: 1, Engine: "docker", ID: "0123", Name: "holon-run_1"}
	expect.NoError(t, CheckHandle(good, "docker"))
	for name, change := range map[string]func(*Handle){
		"another version": func(h *Handle) { h.Version = 2 },
		"another engine":  func(h *Handle) { h.Engine = "other" },
		"path as name":    func(h *Handle) { h.Name = "../" + h.Name },
		"path as ID":      func(h *Handle) { h.ID = "../x" },
		"zero":            func(h *Handle) { *h = Handle{} },
	} {
		bad := good
		change(&bad)
		if err := CheckHandle(bad, "docker"); !state.IsCode(err, CodeInvalidSpec) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestConfined(t *testing.T) {
	if Unconfined(User{}).Confined() {
		t.Error("an unconfined program reads as confined")
	}
	all := make([]string, 0)
	for name := range Unconfined(User{}).Axes() {
		all = append(all, name)
	}
	if !Unconfined(User{}).Confined(all...) || len(all) != 20 {
		t.Errorf("axes = %v", all)
	}
}

// An axis is weak where it is looser than what was asked for, not where looser
// was asked for.
func TestWeak(t *testing.T) {
	loose := Unconfined(User{})
	if weak := Weak(loose, Spec{Server: &User{}}); len(weak) != 20 {
		t.Errorf("weak = %v, want all", weak)
	}
	asked := Spec{User: &User{}, Network: "bridge", Memory: Unlimited}
	for _, name := range []string{"user", "network", "memory"} {
		if slices.Contains(Weak(loose, asked), name) {
			t.Errorf("%s was asked for", name)
		}
	}
	if weak := Weak(loose, asked); len(weak) != 16 {
		t.Errorf("weak = %v", weak)
	}
	if weak := Weak(loose, Spec{User: &User{UID: 1}, Network: NetworkNone}); len(weak) != 19 {
		t.Errorf("weak = %v, want all but privilege_separation", weak)
	}
}

// A path that JSON would turn into another is refused, wherever it stands.
func TestPathsThatJSONChanges(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"\xff", "a\xc3", "\xed\xa0\x80", "new\nline", "\x1b[2J", "\x7f", "\u0085"} {
		odd := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(filepath.Join(odd, "sub"), 0o700))
		for where, spec := range map[string]Spec{
			"source":           {Mounts: []Mount{{Source: odd, Target: "/x"}}},
			"part of a source": {Mounts: []Mount{{Source: filepath.Join(odd, "sub"), Target: "/x"}}},
			"target":           {Mounts: []Mount{{Source: dir, Target: "/" + name}}},
		} {
			spec.Name, spec.Args = "run", []string{"/agentd"}
			_, err := spec.Complete()
			if !state.IsCode(err, CodeInvalidSpec) ||
				!strings.Contains(err.Error(), strings.Trim(strconv.Quote(name), `"`)) {
				t.Errorf("%s with %q: %v", where, name, err)
			}
		}
	}
	for _, name := range []string{"with space", "a:b,c", "ü", "日本", "-rf", "\ufffd"} {
		odd := filepath.Join(dir, name)
		expect.NoError(t, os.MkdirAll(odd, 0o700))
		if _, err := (Spec{Name: "run", Args: []string{"/agentd"},
			Mounts: []Mount{{Source: odd, Target: "/x"}}}).Complete(); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
}
