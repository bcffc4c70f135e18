package e2e

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"holon/runner/uidpool"
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
func TestIsolation(t *testing.T) {
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
	if want := []any{false, 0, 0, 0, "none", int64(memory), int64(memory), int64(cpus)}; !slices.Equal(granted, want) {
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
		"user": c.Config.User, "network": c.HostConfig.NetworkMode, "ipc": c.HostConfig.IpcMode,
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
		if want := fmt.Sprintf("%d:%d", os.Getuid(), os.Getgid()); user != want {
			t.Errorf("the container ran as %s, want %s", user, want)
		}
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
	if err := os.WriteFile(filepath.Join(filepath.Dir(trees[0]), "go"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
}

// The key stays on the host: it is in nothing that the agent can read, that the
// engine knows of the container, or that the run leaves.
func TestKeyStaysOnTheHost(t *testing.T) {
	answer := lastAnswer(t)
	for _, network := range []string{"tcp", "unix"} {
		t.Run(network, func(t *testing.T) {
			t.Parallel()
			const key = "sk-sentinel-7f3a9c1e55d04b6e8a21"
			provider := serveProvider(t, network, answer)
			h, repo := newHome(t, "OPENAI_API_KEY="+key, "OPENAI_BASE_URL="+provider.url), repository(t, "echo a > a")
			p := h.begin(repo, "run", "--model", "openai/gpt-test", "look for a key")
			await(t, "the agent's command", func() bool { return exists(h, "cache/trees/*/*/tree/started") })
			for _, id := range h.containers() {
				if strings.Contains(docker(t, "inspect", id), key) {
					t.Error("docker inspect shows the key")
				}
				if strings.Contains(docker(t, "logs", id), key) {
					t.Error("the container's log shows the key")
				}
			}
			release(t, h)
			r := p.wait()
			if r.code != 0 {
				t.Fatalf("exit code %d\n%s", r.code, r.stderr)
			}
			checkRecord(t, r)
			if !strings.Contains(r.read(t, "tools/"+provider.callID+"/stdout.log"), "/holon/ipc") {
				t.Error("the agent's command did not look around")
			}
			if where := r.contains(t, key); len(where) > 0 {
				t.Errorf("the key is in %v", where)
			}
			if strings.Contains(r.stdout+r.stderr, key) {
				t.Error("the key was printed")
			}
			provider.check(t, key)
		})
	}
}

// lastAnswer is the last answer of a stream with two, as its events.
func lastAnswer(t *testing.T) (events []string) {
	t.Helper()
	f, err := os.Open("../streams/responses/reasoning.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }() // only read from
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), `"type":"response.created"`) {
			events = nil
		}
		if line := strings.TrimSpace(lines.Text()); line != "" {
			events = append(events, line)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return events
}

// provider is a server that speaks like OpenAI: first it calls a tool, then it
// gives an answer of test/streams.
type provider struct {
	url, callID string
	answers     [][]string

	mu       sync.Mutex
	requests []*http.Request
	bodies   []string
}

func serveProvider(t *testing.T, network string, answer []string) *provider {
	t.Helper()
	p := &provider{callID: "call_look", answers: [][]string{lookAround("call_look"), answer}}
	address := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "holon-e2e-p-")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		address = filepath.Join(dir, "s")
	}
	l, err := net.Listen(network, address)
	if err != nil {
		t.Fatal(err)
	}
	p.url = "http://" + l.Addr().String() + "/v1"
	if network == "unix" {
		p.url = "unix://" + address + ":/v1"
	}
	server := &http.Server{Handler: p}
	served := make(chan error, 1)
	go func() { served <- server.Serve(l) }()
	t.Cleanup(func() { _ = server.Close(); <-served })
	return p
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

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	p.mu.Lock()
	n := len(p.requests)
	p.requests, p.bodies = append(p.requests, r), append(p.bodies, string(body))
	p.mu.Unlock()
	if n >= len(p.answers) {
		http.Error(w, "no answer is left", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, event := range p.answers[n] {
		_, _ = fmt.Fprintf(w, "data: %s\n\n", event) // a client that leaves is its own affair
	}
}

// check looks at what reached the provider: the key in its header, in no body.
func (p *provider) check(t *testing.T, key string) {
	t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.requests) != len(p.answers) {
		t.Errorf("%d requests, want %d", len(p.requests), len(p.answers))
	}
	for i, r := range p.requests {
		switch {
		case r.Method != http.MethodPost:
			t.Errorf("%d: r.Method = %q, want %q", i, r.Method, http.MethodPost)
		case r.URL.Path != "/v1/responses":
			t.Errorf(`%d: r.URL.Path = %q, want "/v1/responses"`, i, r.URL.Path)
		case r.Header.Get("Authorization") != "Bearer "+key:
			t.Errorf(`%d: r.Header.Get("Authorization") = %q, want %q`, i, r.Header.Get("Authorization"), "Bearer "+key)
		}
		if strings.Contains(p.bodies[i], key) {
			t.Errorf("the body of request %d holds the key", i)
		}
	}
}
