package e2e

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"holon/runner/uidpool"
	"holon/test/expect"
)

// inspected is what the engine itself says of a container.
type inspected struct {
	Config struct {
		User   string
		Env    []string
		Labels map[string]string
	}
	HostConfig struct {
		CapAdd, CapDrop, SecurityOpt              []string
		Privileged, ReadonlyRootfs                bool
		NetworkMode, IpcMode, PidMode, UsernsMode string
		Memory, MemorySwap, NanoCpus, PidsLimit   int64
		Devices                                   []any
		Binds                                     []string
		Mounts                                    []struct{ Type, Source, Target string }
		Ulimits                                   []struct {
			Name       string
			Soft, Hard int64
		}
	}
	Mounts []struct {
		Source, Destination string
		RW                  bool
	}
}

// The isolation that the record claims is what the engine enforces and what the
// agent meets.
func TestUserIsolation(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t), repository(t, "echo a > a")
	p := h.beginPlay(repo, "confined", "--memory", "256m", "--cpus", "0.5")
	c := inspect(t, h)
	release(t, h)
	r := p.wait()
	if r.code != 0 {
		t.Fatalf("exit code %d\n%s", r.code, r.stderr)
	}
	checkRecord(t, r)
	got := r.manifest.Isolation
	want := axesOf(c)
	for name, axis := range got.Axes() {
		if value, ok := want[name]; ok && axis.Value != value {
			t.Errorf("%s: the record says %q, the engine %q", name, axis.Value, value)
		}
	}
	if !got.Confined() {
		t.Errorf("not every limit is enforced: %+v", got)
	}
	checkUser(t, got.User.Value)

	const memory, cpus = 256 << 20, 5e8
	host := c.HostConfig
	granted := []any{host.Privileged, len(host.CapAdd), len(host.Devices), len(host.Binds), host.NetworkMode,
		host.Memory, host.MemorySwap, host.NanoCpus}
	if want := []any{false, 4, 0, 0, "none", int64(memory), int64(memory), int64(cpus)}; !slices.Equal(granted, want) {
		t.Errorf("privileged, capabilities, devices, binds, network, memory, swap, CPUs are %v, want %v", granted, want)
	}
	if !slices.Equal(host.CapDrop, []string{"ALL"}) {
		t.Errorf("dropped capabilities: %v, want all", host.CapDrop)
	}
	switch l := r.manifest.Limits; {
	case l.MemoryBytes != memory:
		t.Errorf("limits: l.MemoryBytes = %d, want %d", l.MemoryBytes, memory)
	case l.CPUs != 0.5:
		t.Errorf("limits: l.CPUs = %v, want 0.5", l.CPUs)
	case l.Pids != host.PidsLimit:
		t.Errorf("limits: l.Pids = %d, want %d", l.Pids, host.PidsLimit)
	}
	for _, m := range c.Mounts {
		if strings.Contains(m.Source, repo) && m.RW {
			t.Errorf("a directory of the user's repository is writable: %+v", m)
		}
	}
}

// axesOf gives the axes of isolation as the engine has them.
func axesOf(c inspected) map[string]string {
	var mounts []string
	for _, m := range c.Mounts {
		mode := "ro"
		if m.RW {
			mode = "rw"
		}
		mounts = append(mounts, m.Destination+" "+mode)
	}
	slices.Sort(mounts)
	openFiles := ""
	for _, u := range c.HostConfig.Ulimits {
		if u.Name == "nofile" && u.Soft == u.Hard {
			openFiles = strconv.FormatInt(u.Hard, 10)
		}
	}
	return map[string]string{
		"network": c.HostConfig.NetworkMode, "ipc": c.HostConfig.IpcMode,
		"open_files": openFiles,
		"memory":     strconv.FormatInt(c.HostConfig.Memory, 10), "pids": strconv.FormatInt(c.HostConfig.PidsLimit, 10),
		"cpu":               fmt.Sprint(float64(c.HostConfig.NanoCpus) / 1e9),
		"read_only_root":    strconv.FormatBool(c.HostConfig.ReadonlyRootfs),
		"no_new_privileges": strconv.FormatBool(slices.Contains(c.HostConfig.SecurityOpt, "no-new-privileges:true")),
		"mounts":            strings.Join(mounts, ", "),
	}
}

// checkUser checks that a container runs as the caller or, for root, as a user id of the pool.
func checkUser(t *testing.T, user string) {
	t.Helper()
	if os.Getuid() != 0 {
		expect.Equal(t, "the container ran as", user, fmt.Sprintf("%d:65532", os.Getuid()))
		return
	}
	uid, gid, _ := strings.Cut(user, ":")
	if gid != uid {
		t.Errorf("the container ran as %s, want equal ids", user)
	}
	if n, err := strconv.Atoi(uid); err != nil || n < uidpool.DefaultFirst ||
		n >= uidpool.DefaultFirst+uidpool.DefaultCount {
		t.Errorf("the container ran as %s, want an id from %d on (%v)", user, uidpool.DefaultFirst, err)
	}
}

// inspect returns the one container of h.
func inspect(t *testing.T, h *home) inspected {
	t.Helper()
	ids := h.containers()
	if len(ids) != 1 {
		t.Fatalf("containers: %v", ids)
	}
	var all []inspected
	if err := json.Unmarshal([]byte(docker(t, "inspect", ids[0])), &all); err != nil || len(all) != 1 {
		t.Fatal(err)
	}
	return all[0]
}

// release lets a command go on that waits for the file "go" in the tree.
func release(t *testing.T, h *home) {
	t.Helper()
	trees, err := filepath.Glob(filepath.Join(h.dir, "cache/trees/*/*/tree/started"))
	if err != nil || len(trees) != 1 {
		t.Fatal(trees, err)
	}
	expect.NoError(t, os.WriteFile(filepath.Join(filepath.Dir(trees[0]), "go"), nil, 0o666))
}

// lookAround calls a command that shows all that it can see.
func lookAround(callID string) []string {
	args, _ := json.Marshal(map[string]any{"yield_time_ms": 100_000,
		"cmd": `env; for p in /proc/[0-9]*; do tr '\0' '\n' < $p/environ; tr '\0' ' ' < $p/cmdline; done 2>/dev/null
cat /proc/mounts; find /holon /run /tmp /home -type f -size -100k -exec cat {} + 2>/dev/null | tr -d '\0' | ` +
			`tail -c 200000
touch started; until [ -e go ]; do sleep 0.02; done; rm go started`})
	quoted, _ := json.Marshal(string(args)) // strings and numbers: neither fails
	item := func(status, args string) string {
		return `{"id":"fc_1","type":"function_call","status":"` + status + `","name":"ExecCommand","call_id":"` +
			callID + `","arguments":` + args + `}`
	}
	response := func(status, output string) string {
		return `{"id":"resp_1","object":"response","created_at":1,"status":"` + status +
			`","model":"gpt-test","output":[` + output +
			`],"usage":{"input_tokens":3,"output_tokens":4,"total_tokens":7}}`
	}
	return []string{
		`{"type":"response.created","sequence_number":0,"response":` + response("in_progress", "") + `}`,
		`{"type":"response.output_item.added","sequence_number":1,"output_index":0,"item":` +
			item("in_progress", `""`) + `}`,
		`{"type":"response.function_call_arguments.done","sequence_number":2,"item_id":"fc_1",` +
			`"output_index":0,"arguments":` + string(quoted) + `}`,
		`{"type":"response.output_item.done","sequence_number":3,"output_index":0,"item":` +
			item("completed", string(quoted)) + `}`,
		`{"type":"response.completed","sequence_number":4,"response":` +
			response("completed", item("completed", string(quoted))) + `}`,
	}
}
