package enginetest

import (
	"encoding/json"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"holon/runner/engine"
	"holon/test/enginetest/report"
	"holon/test/expect"
)

func hard(value string) engine.Axis { return engine.Axis{Level: engine.HardEnforced, Value: value} }

// confined runs the report of a spec, and returns the isolation that the engine reads back, which is what was asked
// for, and what the program sees.
func (b *bench) confined(t *testing.T, spec engine.Spec) (engine.Isolation, report.Report) {
	t.Helper()
	h := b.start(t, spec)
	b.wait(t, h)
	got := b.inspect(t, h).Isolation
	for _, name := range engine.Weak(got, spec) {
		if !b.rig.weaker(name) {
			t.Errorf("%s is weaker than asked for", name)
		}
	}
	var seen report.Report
	expect.NoError(t, json.Unmarshal([]byte(b.logs(t, h)), &seen))
	return got, seen
}

// testDefaults compares the request, the state that the engine reads back, and the view of the program. It is one
// function because all three are of one container.
func (r Rig) testDefaults(t *testing.T) {
	b := r.open(t)
	spec := b.spec("report")
	ro, rw := openDir(t), openDir(t)
	spec.User = &engine.User{UID: 12345, GID: 23456}
	spec.Mounts = []engine.Mount{{Source: ro, Target: "/ro", ReadOnly: true}, {Source: rw, Target: "/rw"}}
	spec.NanoCPUs = 500_000_000
	got, seen := b.confined(t, spec)
	want := engine.Isolation{
		User: hard("12345:23456"), Separation: engine.Axis{Level: engine.NotEnforced, Value: "none"},
		Capabilities: hard("none"), NoNewPrivileges: hard("true"), Seccomp: hard("holon"),
		ReadOnlyRoot: hard("true"), Network: hard("none"), Pids: hard(strconv.Itoa(engine.MaxPids)),
		Memory: hard(strconv.Itoa(engine.DefaultMemory)), CPU: hard("0.5"),
		OpenFiles: hard(strconv.Itoa(engine.MaxOpenFiles)),
		FileSize:  hard(strconv.Itoa(engine.MaxFileSize)), CoreDumps: hard("none"),
		Tmpfs: hard("/dev/shm 67108864, /home/agent 536870912/131072, /run 67108864/16384, /tmp 1073741824/262144"),
		IPC:   hard("private"), Cgroup: hard("private"), Init: hard("program"), Devices: hard("none"),
		Mounts:      hard(r.mounts("/ro ro", "/rw rw")),
		MaskedPaths: hard(got.MaskedPaths.Value), // how many there are depends on the engine
	}
	r.differ(&want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the isolation that is read back (-want +got):\n%s", diff)
	}
	wantStatus(t, seen, "0000000000000000")
	r.neglect(&seen)
	if diff := cmp.Diff(report.Report{
		PID: 1, OpenFiles: engine.MaxOpenFiles, FileSize: engine.MaxFileSize, Interfaces: []string{"lo"},
		Writable: map[string]bool{"/": false, "/etc": false, "/ro": false, "/rw": true, "/tmp": true, "/run": true,
			engine.Home: true},
		Inodes: map[string]uint64{"/tmp": 262144, "/run": 16384, engine.Home: 131072},
	}, seen, cmpopts.IgnoreFields(report.Report{}, "UID", "GID", "Groups", "Env", "WorkDir", "Status",
		"Devices")); diff != "" {
		t.Errorf("what the program sees (-want +got):\n%s", diff)
	}
	known := []string{"console", "core", "fd", "full", "mqueue", "null", "ptmx", "pts", "random", "shm", "stderr",
		"stdin", "stdout", "termination-log", "tty", "urandom", "zero"}
	for _, device := range seen.Devices {
		if !slices.Contains(known, device) {
			t.Errorf("unexpected device %s", device)
		}
	}
}

// differ sets what this engine reports instead of the defaults.
func (r Rig) differ(isolation *engine.Isolation) {
	for name, axis := range isolation.All() {
		if reported, ok := r.Axes[name]; ok {
			*axis = reported
		}
	}
}

// neglect sets what a program sees to what it should, where the engine does not promise it.
func (r Rig) neglect(seen *report.Report) {
	if r.Pods && seen.PID > 1 {
		seen.PID = 1
	}
	if r.weaker("network") {
		seen.Interfaces = []string{"lo"}
	}
	if r.weaker("tmpfs") {
		for _, fs := range engine.AllTmpfs() {
			seen.Inodes[fs.Target] = uint64(fs.Inodes())
		}
	}
}

// wantStatus checks the capabilities of the program, which its own are of no use to commands.
func wantStatus(t *testing.T, seen report.Report, own string) {
	t.Helper()
	for key, want := range map[string]string{"CapInh": "0000000000000000", "CapEff": own, "CapPrm": own, "CapBnd": own,
		"CapAmb": "0000000000000000", "NoNewPrivs": "1", "Seccomp": "2"} {
		expect.Equal(t, key, seen.Status[key], want)
	}
}

func (r Rig) testLoosened(t *testing.T) {
	b := r.open(t)
	spec := b.spec("report")
	spec.Memory, spec.NanoCPUs, spec.User = engine.Unlimited, 0, &engine.User{}
	got, seen := b.confined(t, spec)
	if cpus, err := strconv.ParseFloat(got.CPU.Value, 64); err != nil || cpus <= 0 ||
		cpus > engine.DefaultNanoCPUs/1e9 {
		t.Errorf("CPUs without being asked for any: %+v", got.CPU)
	}
	loose := maps.Collect(got.Axes())
	maps.DeleteFunc(loose, func(name string, axis engine.Axis) bool {
		return axis.Level == engine.HardEnforced || r.weaker(name)
	})
	if diff := cmp.Diff(map[string]engine.Axis{
		"user":                 {Level: engine.RuntimeShaped, Value: "0:0"},
		"privilege_separation": {Level: engine.NotEnforced, Value: "none"},
		"memory":               {Level: engine.NotEnforced, Value: "unlimited"},
	}, loose); diff != "" {
		t.Errorf("the axes that are loose (-want +got):\n%s", diff)
	}
	expect.Equal(t, "capabilities of root", seen.Status["CapEff"], "0000000000000000")
}

// A program that separates itself from its commands starts as root with what it needs for that, and nothing more.
func (r Rig) testSeparated(t *testing.T) {
	b := r.open(t)
	spec := b.spec("report")
	spec.User, spec.Server = &engine.User{UID: 12345, GID: 23456}, &engine.User{UID: 34567, GID: 45678}
	got, seen := b.confined(t, spec)
	expect.Equal(t, "user", got.User, hard("12345:23456"))
	expect.Equal(t, "privilege_separation", got.Separation, hard("34567:45678"))
	expect.Equal(t, "capabilities", got.Capabilities,
		hard("none, CAP_CHOWN,CAP_KILL,CAP_SETGID,CAP_SETUID of the program itself"))
	wantStatus(t, seen, "00000000000000e1")
}

// mounts is what the isolation says of mounts.
func (r Rig) mounts(each ...string) string {
	if r.Streams {
		for i := range each {
			each[i] += " volume"
		}
	}
	return strings.Join(each, ", ")
}

func (r Rig) testReadOnlyMount(t *testing.T) {
	b := r.open(t)
	dir := openDir(t)
	for _, readOnly := range []bool{false, true} {
		spec := b.spec("write", "/data/file")
		spec.Mounts = []engine.Mount{{Source: dir, Target: "/data", ReadOnly: readOnly}}
		exit, out := b.run(t, spec)
		_, err := os.Stat(dir + "/file")
		if written := err == nil; written == readOnly || (exit.Code == 0) == readOnly {
			t.Errorf("read-only %v: written %v, exit %+v %q", readOnly, written, exit, out)
		}
		_ = os.Remove(dir + "/file")
	}
}

// testOutOfMemory: the limit kills every time; that the engine says why is
// asked of one end in five, for the kernel's notice of the want of memory can
// be lost when the group it belongs to goes with its only process.
func (r Rig) testOutOfMemory(t *testing.T) {
	b := r.open(t)
	for attempt, known := 1, false; !known; attempt++ {
		spec := b.spec("memory", strconv.Itoa(256<<20))
		spec.Memory = 64 << 20
		h := b.start(t, spec)
		exit, inspected := b.wait(t, h), b.inspect(t, h).Exit
		if exit.Code != 137 {
			t.Fatalf("exit = %+v, want 137", exit)
		}
		if inspected == nil || *inspected != exit {
			t.Fatalf("inspected exit = %+v, waited for %+v", inspected, exit)
		}
		if known = exit.OOMKilled; !known && attempt == 5 {
			t.Fatal("no end of five is known to be for lack of memory")
		}
	}
	if exit, out := b.run(t, b.spec("memory", strconv.Itoa(256<<20))); exit.Code != 0 || out != "memory\tOK\n" {
		t.Errorf("within the limit: %+v %q", exit, out)
	}
}

func (r Rig) testTooManyProcesses(t *testing.T) {
	if r.weaker("pids") {
		t.Skip("the engine does not promise it")
	}
	b := r.open(t)
	_, out := b.run(t, b.spec("forks", strconv.Itoa(engine.MaxPids)))
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(out, "forked ")))
	if err != nil || n >= engine.MaxPids {
		t.Errorf("%q, want fewer than %d processes", out, engine.MaxPids)
	}
}

// testNoConfinement: an engine that confines nothing says so on every axis.
func (r Rig) testNoConfinement(t *testing.T) {
	b := r.open(t)
	h := b.create(t, b.spec("serve"))
	axes := 0
	for name, axis := range b.inspect(t, h).Isolation.Axes() {
		axes++
		if axis.Level != engine.NotEnforced || axis.Value == "" {
			t.Errorf("%s = %+v", name, axis)
		}
	}
	if axes == 0 {
		t.Error("no axes")
	}
}

func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	expect.NoError(t, os.Chmod(dir, 0o777))
	return dir
}
