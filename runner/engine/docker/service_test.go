package docker

import (
	"encoding/json"
	"testing"

	"github.com/docker/docker/api/types/image"

	"holon/runner/engine"
	"holon/test/expect"
)

func TestOwnerOf(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]struct {
		owner string
		root  bool
	}{
		"": {"", true}, "0": {"", true}, "0:5": {"", true}, "root": {"", true}, "root:root": {"", true},
		"70": {"uid=70,gid=0", false}, "70:71": {"uid=70,gid=71", false}, "70:pg": {"uid=70,gid=0", false},
		"postgres": {"", false}, "-1": {"", false}, "4294967296": {"", false},
	} {
		owner, root := ownerOf(user)
		expect.Equal(t, user+": owner", owner, want.owner)
		expect.Equal(t, user+": root", root, want.root)
	}
}

// Only a service of root has capabilities, and what it may write is in memory.
func TestAsImage(t *testing.T) {
	t.Parallel()
	for user, caps := range map[string]int{"": len(preparing), "70": 0, "postgres": 0} {
		spec, err := engine.Spec{Name: "holon-x", Network: "container:y", Memory: 1 << 20 * 64,
			Service: &engine.Service{Dirs: []string{"/cache"}}}.Complete()
		expect.NoError(t, err)
		config, host := request(spec)
		var found image.InspectResponse
		expect.Equal(t, "program", len(config.Entrypoint)+len(config.User)+len(config.WorkingDir), 0)
		asImage(config, host, spec, found)
		expect.Equal(t, "without a configuration", len(host.CapAdd), len(preparing))
		host.CapAdd = nil
		expect.NoError(t, json.Unmarshal([]byte(`{"Config": {"User": "`+user+`", "Volumes": {"/data/": {}}}}`), &found))
		asImage(config, host, spec, found)
		expect.Equal(t, user+": capabilities", len(host.CapAdd), caps)
		expect.Equal(t, user+": root is read-only", host.ReadonlyRootfs, true)
		for _, dir := range []string{"/cache", "/data", "/tmp"} {
			if host.Tmpfs[dir] == "" {
				t.Errorf("%q: %s is not in memory", user, dir)
			}
		}
	}
}

// A service is nothing but its image.
func TestServiceSpec(t *testing.T) {
	t.Parallel()
	for name, spec := range map[string]engine.Spec{
		"server": {Server: &engine.User{UID: 5, GID: 5}}, "mounts": {Mounts: []engine.Mount{{Source: t.TempDir(), Target: "/x"}}},
		"system directory": {Service: &engine.Service{Dirs: []string{"/proc/x"}}},
		"relative":         {Service: &engine.Service{Dirs: []string{"x"}}},
		"portion":          {Portion: engine.Portion{Parts: 3, Of: 2}},
	} {
		spec.Name = "holon-x"
		if spec.Service == nil {
			spec.Service = &engine.Service{}
		}
		if _, err := spec.Complete(); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
