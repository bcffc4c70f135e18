package docker

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/go-units"

	"holon/runner/engine"
	"holon/state"
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
		switch {
		case !ok:
			t.Errorf("%s: %#v, want code %s, param %s, a hint", name, err, test.code, test.param)
		case typed.Code != test.code:
			t.Errorf("%s: typed.Code = %q, want %q", name, typed.Code, test.code)
		case typed.Param != test.param:
			t.Errorf("%s: typed.Param = %q, want %q", name, typed.Param, test.param)
		case typed.Hint == "":
			t.Errorf(`%s: typed.Hint = "", want another value`, name)
		case strings.Contains(typed.Error(), "\n"):
			t.Errorf("%s: typed.Error() = %q, want it without %q", name, typed.Error(), "\n")
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
	if err != nil {
		t.Fatal(err)
	}
	plain := filepath.Join(dir, "file")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"unix://" + filepath.Join(dir, "none.sock"), "unix://" + stale, "unix://" + plain,
		"tcp://127.0.0.1:1"} {
		e, err := New(host, "")
		if err != nil {
			t.Fatal(err)
		}
		_, checkErr := e.Check(t.Context())
		_, createErr := e.Create(t.Context(), faultSpec("any"))
		for verb, err := range map[string]error{"Check": checkErr, "Create": createErr} {
			switch typed, ok := errors.AsType[*engine.Error](err); {
			case !ok:
				t.Errorf("%s at %s: %#v", verb, host, err)
			case typed.Code != engine.CodeUnreachable:
				t.Errorf("%.120q: typed.Code = %q, want %q", verb, typed.Code, engine.CodeUnreachable)
			case !strings.Contains(typed.Hint, "--engine local"):
				t.Errorf(`%.120q: typed.Hint = %q, want it to contain "--engine local"`, verb, typed.Hint)
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
	switch {
	case !ok:
		t.Errorf("%#v", typed)
	case typed.Code != engine.CodePermissionDenied:
		t.Errorf("typed.Code = %q, want %q", typed.Code, engine.CodePermissionDenied)
	case !strings.Contains(typed.Hint, "docker group"):
		t.Errorf(`typed.Hint = %q, want it to contain "docker group"`, typed.Hint)
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

func TestDiscardedLimitsAreErrors(t *testing.T) {
	const (
		memory = "Your kernel does not support memory limit capabilities or the cgroup is not mounted. " +
			"Limitation discarded."
		pids = "Your kernel does not support pids limit capabilities or the cgroup is not mounted. " +
			"PIDs limit discarded."
		swap = "Your kernel does not support swap limit capabilities or the cgroup is not mounted. Memory limited " +
			"without swap."
	)
	limited, free := engine.Spec{Memory: 1 << 30}, engine.Spec{Memory: engine.Unlimited}
	for _, test := range []struct {
		warning string
		spec    engine.Spec
		param   string
	}{
		{memory, limited, "memory"}, {pids, limited, "pids"}, {swap, limited, ""}, {memory, free, ""},
	} {
		err := discarded([]string{"another warning", test.warning}, test.spec)
		typed, ok := errors.AsType[*engine.Error](err)
		if (test.param != "") != ok || ok && (typed.Code != engine.CodeResourceLimit || typed.Param != test.param) {
			t.Errorf("%q for %+v: %v", test.warning, test.spec, err)
		}
	}
}

// What is looser than the defaults never reads as hard_enforced.
func TestIsolationOfLooseContainers(t *testing.T) {
	seccomp := &system.Info{SecurityOptions: []string{"name=seccomp,profile=default"}}
	pids := func(n int64) *int64 { return &n }
	yes := true
	for name, test := range map[string]struct {
		host   container.HostConfig
		user   string
		daemon *system.Info
		mounts []container.MountPoint
		axis   func(engine.Isolation) engine.Axis
		want   engine.Level
	}{
		"image user": {axis: func(i engine.Isolation) engine.Axis {
			return i.User
		}, want: engine.RuntimeShaped},
		"root": {user: "0:0", axis: func(i engine.Isolation) engine.Axis {
			return i.User
		}, want: engine.RuntimeShaped},
		"named user": {user: "agent", axis: func(i engine.Isolation) engine.Axis {
			return i.User
		}, want: engine.RuntimeShaped},
		"default capabilities": {axis: func(i engine.Isolation) engine.Axis {
			return i.Capabilities
		}, want: engine.RuntimeShaped},
		"added capability": {host: container.HostConfig{CapDrop: []string{"ALL"}, CapAdd: []string{"CAP_SYS_ADMIN"}},
			axis: func(i engine.Isolation) engine.Axis { return i.Capabilities }, want: engine.RuntimeShaped},
		"privileged": {host: container.HostConfig{Privileged: true, CapDrop: []string{"ALL"}},
			axis: func(i engine.Isolation) engine.Axis { return i.Capabilities }, want: engine.NotEnforced},
		"privileged devices": {host: container.HostConfig{Privileged: true},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Devices
			}, want: engine.NotEnforced},
		"a device": {host: container.HostConfig{Resources: container.Resources{Devices: []container.DeviceMapping{{}}}},
			axis: func(i engine.Isolation) engine.Axis { return i.Devices }, want: engine.RuntimeShaped},
		"new privileges": {host: container.HostConfig{SecurityOpt: []string{"no-new-privileges:false"}},
			axis: func(i engine.Isolation) engine.Axis {
				return i.NoNewPrivileges
			}, want: engine.NotEnforced},
		"seccomp off": {host: container.HostConfig{SecurityOpt: []string{"seccomp=unconfined"}},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Seccomp
			}, want: engine.NotEnforced},
		"seccomp custom": {host: container.HostConfig{SecurityOpt: []string{"seccomp={}"}},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Seccomp
			}, want: engine.RuntimeShaped},
		"daemon without": {daemon: &system.Info{}, axis: func(i engine.Isolation) engine.Axis {
			return i.Seccomp
		}, want: engine.NotEnforced},
		"writable root": {axis: func(i engine.Isolation) engine.Axis {
			return i.ReadOnlyRoot
		}, want: engine.NotEnforced},
		"bridge": {host: container.HostConfig{NetworkMode: "bridge"}, axis: func(i engine.Isolation) engine.Axis {
			return i.Network
		}, want: engine.RuntimeShaped},
		"default network": {axis: func(i engine.Isolation) engine.Axis {
			return i.Network
		}, want: engine.RuntimeShaped},
		"host network": {host: container.HostConfig{NetworkMode: "host"}, axis: func(i engine.Isolation) engine.Axis {
			return i.Network
		}, want: engine.NotEnforced},
		"no pids limit": {axis: func(i engine.Isolation) engine.Axis { return i.Pids }, want: engine.NotEnforced},
		"pids unlimited": {host: container.HostConfig{Resources: container.Resources{PidsLimit: pids(-1)}},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Pids
			}, want: engine.NotEnforced},
		"no memory limit": {axis: func(i engine.Isolation) engine.Axis { return i.Memory }, want: engine.NotEnforced},
		"swap unlimited": {host: container.HostConfig{Resources: container.Resources{Memory: 1 << 30, MemorySwap: -1}},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Memory
			}, want: engine.RuntimeShaped},
		"no cpu limit": {axis: func(i engine.Isolation) engine.Axis { return i.CPU }, want: engine.NotEnforced},
		"no file limit": {axis: func(i engine.Isolation) engine.Axis {
			return i.OpenFiles
		}, want: engine.RuntimeShaped},
		"no file size": {axis: func(i engine.Isolation) engine.Axis { return i.FileSize }, want: engine.NotEnforced},
		"core dumps": {axis: func(i engine.Isolation) engine.Axis {
			return i.CoreDumps
		}, want: engine.NotEnforced},
		"some core dumps": {host: container.HostConfig{
			Resources: container.Resources{Ulimits: []*units.Ulimit{{Name: "core", Hard: 1}}}}, axis: func(
			i engine.Isolation) engine.Axis {
			return i.CoreDumps
		}, want: engine.RuntimeShaped},
		"endless tmpfs": {host: container.HostConfig{Tmpfs: map[string]string{"/tmp": "rw,nr_inodes=9"}},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Tmpfs
			}, want: engine.RuntimeShaped},
		"endless inodes": {host: container.HostConfig{Tmpfs: map[string]string{"/tmp": "size=9",
			"/run": "size=1,nr_inodes=1"}}, axis: func(i engine.Isolation) engine.Axis {
			return i.Tmpfs
		}, want: engine.RuntimeShaped},
		"host cgroup": {host: container.HostConfig{CgroupnsMode: "host"}, axis: func(i engine.Isolation) engine.Axis {
			return i.Cgroup
		}, want: engine.NotEnforced},
		"nothing masked": {axis: func(i engine.Isolation) engine.Axis {
			return i.MaskedPaths
		}, want: engine.NotEnforced},
		"little masked": {host: container.HostConfig{MaskedPaths: []string{"/proc/kcore"}, ReadonlyPaths: mustReadOnly},
			axis: func(i engine.Isolation) engine.Axis {
				return i.MaskedPaths
			}, want: engine.RuntimeShaped},
		"gVisor": {host: container.HostConfig{Runtime: "runsc", Resources: container.Resources{PidsLimit: pids(9)}},
			axis: func(i engine.Isolation) engine.Axis { return i.Pids }, want: engine.RuntimeShaped},
		"gVisor's seccomp": {host: container.HostConfig{Runtime: "runsc"}, axis: func(i engine.Isolation) engine.Axis {
			return i.Seccomp
		}, want: engine.RuntimeShaped},
		"gVisor's root": {host: container.HostConfig{Runtime: "runsc", ReadonlyRootfs: true},
			axis: func(i engine.Isolation) engine.Axis {
				return i.ReadOnlyRoot
			}, want: engine.HardEnforced},
		"unknown runtime": {host: container.HostConfig{Runtime: "mine", ReadonlyRootfs: true},
			axis: func(i engine.Isolation) engine.Axis {
				return i.ReadOnlyRoot
			}, want: engine.RuntimeShaped},
		"shareable ipc": {host: container.HostConfig{IpcMode: "shareable"}, axis: func(i engine.Isolation) engine.Axis {
			return i.IPC
		}, want: engine.RuntimeShaped},
		"host ipc": {host: container.HostConfig{IpcMode: "host"}, axis: func(i engine.Isolation) engine.Axis {
			return i.IPC
		}, want: engine.NotEnforced},
		"host processes": {host: container.HostConfig{PidMode: "host", Init: &yes},
			axis: func(i engine.Isolation) engine.Axis {
				return i.Init
			}, want: engine.NotEnforced},
		"shared mount": {mounts: []container.MountPoint{{Type: mount.TypeBind, Destination: "/x",
			Propagation: mount.PropagationRShared}},
			axis: func(i engine.Isolation) engine.Axis { return i.Mounts }, want: engine.RuntimeShaped},
	} {
		daemon := test.daemon
		if daemon == nil {
			daemon = seccomp
		}
		got := test.axis(isolation(container.InspectResponse{
			ContainerJSONBase: &container.ContainerJSONBase{HostConfig: &test.host},
			Config:            &container.Config{User: test.user}, Mounts: test.mounts,
		}, daemon))
		if got.Level != test.want || got.Value == "" {
			t.Errorf("%s: %+v, want %s", name, got, test.want)
		}
	}
}
