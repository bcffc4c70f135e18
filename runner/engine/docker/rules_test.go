package docker

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-units"

	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

func TestRefusalsOfTheDaemon(t *testing.T) {
	e := connect(t)
	there := suiteImage(t, e)
	for name, test := range map[string]struct {
		change func(*engine.Spec)
		code   engine.Code
		param  string
	}{
		"image not here":      {func(s *engine.Spec) {}, engine.CodeImageNotFound, "image"},
		"image is not a name": {func(s *engine.Spec) { s.Image = "NOT/Lower" }, engine.CodeInvalidSpec, "image"},
		"no image":            {func(s *engine.Spec) { s.Image = "" }, engine.CodeInvalidSpec, "image"},
		"image with space":    {func(s *engine.Spec) { s.Image = "a b" }, engine.CodeInvalidSpec, "image"},
		"too many cpus": {func(s *engine.Spec) {
			s.Image, s.NanoCPUs = there, 1<<60
		}, engine.CodeResourceLimit, "cpus"},
	} {
		spec := faultSpec("holon-enginetest:none")
		test.change(&spec)
		_, err := e.Create(t.Context(), spec)
		typed, ok := errors.AsType[*engine.Error](err)
		if !ok || typed.Code != test.code || typed.Param != test.param || typed.Hint == "" ||
			strings.Contains(typed.Error(), "\n") {
			t.Errorf("%s: %#v, want a line with code %s, param %s and a hint", name, err, test.code, test.param)
		}
	}
}

func TestUnreachable(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale.sock") // a socket without a listener
	fd, err := syscall.Socket(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		err = errors.Join(syscall.Bind(fd, &syscall.SockaddrUnix{Name: stale}), syscall.Close(fd))
	}
	expect.NoError(t, err)
	plain := filepath.Join(dir, "file")
	expect.NoError(t, os.WriteFile(plain, nil, 0o600))
	for _, host := range []string{"unix://" + filepath.Join(dir, "none.sock"), "unix://" + stale, "unix://" + plain,
		"tcp://127.0.0.1:1"} {
		e, err := New(host, "")
		expect.NoError(t, err)
		_, checkErr := e.Check(t.Context())
		_, createErr := e.Create(t.Context(), faultSpec("any"))
		for verb, err := range map[string]error{"Check": checkErr, "Create": createErr} {
			typed, ok := errors.AsType[*engine.Error](err)
			if !ok || typed.Code != engine.CodeUnreachable || !strings.Contains(typed.Hint, "--engine local") {
				t.Errorf("%s at %s: %#v", verb, host, err)
			}
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := New("nonsense", ""); !state.IsCode(err, engine.CodeUnreachable) {
		t.Errorf("New(nonsense) = %v", err)
	}
}

func TestPermissionDenied(t *testing.T) {
	denied := fmt.Errorf("dial unix /run/docker.sock: connect: %w", os.ErrPermission)
	typed, ok := errors.AsType[*engine.Error](wrap("reach the Docker engine", denied))
	if !ok || typed.Code != engine.CodePermissionDenied || !strings.Contains(typed.Hint, "docker group") {
		t.Errorf("%#v", typed)
	}
}

// A daemon that is too old, or not for Linux, is refused with what to do.
func TestUnsuitableDaemon(t *testing.T) {
	for name, headers := range map[string]map[string]string{
		"old":     {"Api-Version": "1.40", "Ostype": "linux"},
		"windows": {"Api-Version": "1.43", "Ostype": "windows"},
	} {
		e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			for key, value := range headers {
				w.Header().Set(key, value)
			}
		}), func() {})
		if _, err := e.Check(t.Context()); !state.IsCode(err, engine.CodeUnreachable) {
			t.Errorf("%s: Check = %v", name, err)
		}
	}
}

// What is looser than the defaults never reads as hard_enforced.
func TestIsolationOfLooseContainers(t *testing.T) {
	type (
		host   = container.HostConfig
		limits = container.Resources
	)
	const shaped, none = engine.RuntimeShaped, engine.NotEnforced
	yes := true
	for name, test := range map[string]struct {
		axis string
		want engine.Level
		host host
	}{
		"image user":           {"user", shaped, host{}},
		"default capabilities": {"capabilities", shaped, host{}},
		"added capability": {"capabilities", shaped,
			host{CapDrop: []string{"ALL"}, CapAdd: []string{"CAP_SYS_ADMIN"}}},
		"privileged":         {"capabilities", none, host{Privileged: true, CapDrop: []string{"ALL"}}},
		"privileged devices": {"devices", none, host{Privileged: true}},
		"a device":           {"devices", shaped, host{Resources: limits{Devices: []container.DeviceMapping{{}}}}},
		"new privileges":     {"no_new_privileges", none, host{SecurityOpt: []string{"no-new-privileges:false"}}},
		"seccomp off":        {"seccomp", none, host{SecurityOpt: []string{"seccomp=unconfined"}}},
		"seccomp custom":     {"seccomp", shaped, host{SecurityOpt: []string{"seccomp={}"}}},
		"writable root":      {"read_only_root", none, host{}},
		"bridge":             {"network", shaped, host{NetworkMode: "bridge"}},
		"default network":    {"network", shaped, host{}},
		"host network":       {"network", none, host{NetworkMode: "host"}},
		"no pids limit":      {"pids", none, host{}},
		"pids unlimited":     {"pids", none, host{Resources: limits{PidsLimit: new(int64(-1))}}},
		"no memory limit":    {"memory", none, host{}},
		"swap unlimited":     {"memory", shaped, host{Resources: limits{Memory: 1 << 30, MemorySwap: -1}}},
		"no cpu limit":       {"cpu", none, host{}},
		"no file limit":      {"open_files", shaped, host{}},
		"no file size":       {"file_size", none, host{}},
		"core dumps":         {"core_dumps", none, host{}},
		"some core dumps": {"core_dumps", shaped,
			host{Resources: limits{Ulimits: []*units.Ulimit{{Name: "core", Hard: 1}}}}},
		"endless tmpfs":  {"tmpfs", shaped, host{Tmpfs: map[string]string{"/tmp": "rw,nr_inodes=9"}}},
		"endless inodes": {"tmpfs", shaped, host{Tmpfs: map[string]string{"/tmp": "size=9", "/run": "size=1,nr_inodes=1"}}},
		"host cgroup":    {"cgroup", none, host{CgroupnsMode: "host"}},
		"nothing masked": {"masked_paths", none, host{}},
		"little masked": {"masked_paths", shaped,
			host{MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: mustReadOnly}},
		"gVisor":           {"pids", shaped, host{Runtime: "runsc", Resources: limits{PidsLimit: new(int64(9))}}},
		"gVisor's seccomp": {"seccomp", shaped, host{Runtime: "runsc"}},
		"gVisor's root":    {"read_only_root", engine.HardEnforced, host{Runtime: "runsc", ReadonlyRootfs: true}},
		"unknown runtime":  {"read_only_root", shaped, host{Runtime: "mine", ReadonlyRootfs: true}},
		"shareable ipc":    {"ipc", shaped, host{IpcMode: "shareable"}},
		"host ipc":         {"ipc", none, host{IpcMode: "host"}},
		"host processes":   {"init", none, host{PidMode: "host", Init: &yes}},
	} {
		checkAxis(t, name, test.axis, test.want, container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &test.host}, Config: &container.Config{}},
			"name=seccomp,profile=default")
	}
	base := &container.ContainerJSONBase{HostConfig: &host{}}
	for _, user := range []string{"0:0", "agent"} {
		checkAxis(t, user, "user", shaped, container.InspectResponse{ContainerJSONBase: base,
			Config: &container.Config{User: user}}, "")
	}
	checkAxis(t, "daemon without", "seccomp", none, container.InspectResponse{ContainerJSONBase: base,
		Config: &container.Config{}}, "")
	checkAxis(t, "shared mount", "mounts", shaped, container.InspectResponse{ContainerJSONBase: base,
		Config: &container.Config{}, Mounts: []container.MountPoint{{Type: mount.TypeBind, Destination: "/x",
			Propagation: mount.PropagationRShared}}}, "")
}

func checkAxis(t *testing.T, name, axis string, want engine.Level, found container.InspectResponse, option string) {
	t.Helper()
	read := isolation(found, &system.Info{SecurityOptions: []string{option}})
	if got := maps.Collect(read.Axes())[axis]; got.Level != want || got.Value == "" {
		t.Errorf("%s: %+v, want %s", name, got, want)
	}
}

// A program that could not be signalled is killed before the daemon reports an end that it did not see.
func TestKilledBeforeItIsForgotten(t *testing.T) {
	const kills = 10 * time.Second // for SIGTERM as for SIGKILL
	config, _ := request(engine.Spec{User: &engine.User{}})
	if after := time.Duration(*config.StopTimeout) * time.Second; after <= 2*kills {
		t.Errorf("it is forgotten after %s", after)
	}
}
