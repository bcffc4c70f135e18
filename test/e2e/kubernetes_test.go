package e2e

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/kubernetes"
	"holon/state"
	"holon/test/clustertest"
	"holon/test/expect"
)

// cluster is one of .ci/with-kubernetes.
type cluster struct {
	*clustertest.Cluster
	t      *testing.T
	engine *kubernetes.Engine
	base   string // the base image
}

func newCluster(t *testing.T) *cluster {
	c := &cluster{Cluster: clustertest.Open(t), t: t}
	t.Setenv("KUBECONFIG", c.Kubeconfig)
	eng, err := kubernetes.New(kubernetes.Options{AgentdImage: c.AgentdImage})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, eng.Close()) })
	c.engine, c.base = eng, c.Load(baseImage)
	return c
}

// home is a home whose agents run in the cluster.
func (c *cluster) home(env ...string) *home {
	return newHome(c.t, append(env, "HOLON_ENGINE=kubernetes", "KUBECONFIG="+c.Kubeconfig, "HOLON_IMAGE="+c.base,
		"HOLON_KUBERNETES_AGENTD_IMAGE="+c.AgentdImage, "HOLON_ACCEPT_WEAKER=cgroup,network,pids,tmpfs")...)
}

// in runs a shell command in the one Pod of a home, as the user of the agent's commands, in the working tree, and
// reports whether it succeeded.
func (c *cluster) in(h *home, command string) bool {
	c.t.Helper()
	found, err := c.engine.List(c.t.Context(), map[string]string{runner.LabelRole: "agent", runner.LabelHome: h.dir})
	if err != nil || len(found) != 1 {
		return false
	}
	stream, err := c.engine.Exec(c.t.Context(), found[0].Handle, engine.User{UID: 65532, GID: 65532},
		[]string{"/bin/sh", "-c", "cd /holon/workspaces/* && " + command})
	if err != nil {
		return false
	}
	defer stream.Close()
	_, err = io.Copy(io.Discard, stream)
	return err == nil
}

// pods are those of a home.
func (c *cluster) pods(h *home) (handles []engine.Handle) {
	c.t.Helper()
	found, err := c.engine.List(c.t.Context(), map[string]string{runner.LabelHome: h.dir})
	expect.NoError(c.t, err)
	for _, pod := range found {
		handles = append(handles, pod.Handle)
	}
	return handles
}

// begin starts a run that waits for the file "go" in its tree, or does what another scenario says.
func (c *cluster) begin(h *home, repo, scenario string) *process {
	c.t.Helper()
	p := h.begin(repo, "run", "--model", scripted(c.t, scenario), "--timeout", "5m", "count")
	await(c.t, "the agent's command", func() bool { return c.in(h, "test -e started") })
	return p
}

// A run in a Pod is like another: its result, and what is left when holon is killed and the run attached to, or no
// record of it is left. It goes on while the API server is away, and ends with its Pod.
func TestKubernetes(t *testing.T) {
	c := newCluster(t)
	h, repo := c.home(), repository(t, "echo a > a; mkdir d; echo b > d/b; ln -s d/b link")

	p := c.begin(h, repo, "pausing")
	c.Ask("stop kube-apiserver")
	stopped := time.Now()
	await(t, "a link to break, and what is asked of agentd to wait", func() bool {
		return time.Since(stopped) > 15*time.Second
	})
	c.Ask("start kube-apiserver")
	await(t, "the API server", func() bool { return c.in(h, "grep -q b link && touch go") })
	if r := p.wait(); r.code != 0 || r.manifest.Status != state.StatusCompleted {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}

	p = c.begin(h, repo, "pausing")
	p.kill()
	attached := h.begin(repo, "attach", "last")
	await(t, "the command to go on", func() bool { return c.in(h, "touch go") })
	if r := attached.wait(); r.code != 0 || !strings.Contains(r.stdout, "It ended by itself.") {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	if patch := h.run(repo, "diff", "last"); strings.Count(patch.stdout, "+run\n") != 1 ||
		!strings.Contains(patch.stdout, "+late\n") {
		t.Errorf("the change is not that of one run:\n%s", patch.stdout)
	}

	p = c.begin(h, repo, "pausing")
	for _, pod := range c.pods(h) {
		expect.NoError(t, c.engine.Remove(t.Context(), pod))
	}
	if r := p.wait(); r.code != 1 || r.manifest.Status != state.StatusInterrupted {
		t.Errorf("its Pod is gone: exit code %d, %s\n%s", r.code, r.manifest.Status, r.stderr)
	}

	c.begin(h, repo, "pausing").kill()
	expect.NoError(t, os.RemoveAll(filepath.Join(h.dir, "runs")))
	h.gc()
	expect.Equal(t, "Pods that are left", len(c.pods(h)), 0)
}

// What the cluster does to a run ends it with a reason.
func TestKubernetesWeather(t *testing.T) {
	c := newCluster(t)
	template := filepath.Join(t.TempDir(), "pod.yaml")
	expect.NoError(t, os.WriteFile(template, []byte("{apiVersion: v1, kind: Pod, spec: {containers: [{name: files, "+
		"resources: {limits: {ephemeral-storage: 32Mi}}}]}}"), 0o600))
	for _, tc := range []struct {
		name, scenario string
		happens        func()
		codes          []string // a Pod may end before its agentd says that it does
		says           string
	}{
		{"evicted", "filling", func() {}, []string{responses.ReasonShutdown, string(runner.CodeContainerGone)}, "Evicted: "},
		{"node gone", "pausing", func() {
			c.Ask("stop kubelet")
			t.Cleanup(func() { c.Ask("start kubelet") })
		}, []string{string(runner.CodeContainerGone)}, "does not answer"},
	} {
		h := c.home("HOLON_KUBERNETES_POD=" + template)
		p := c.begin(h, repository(t, "echo a > a"), tc.scenario)
		tc.happens()
		r := p.wait()
		if f := r.failure(t); r.code == 0 || !slices.Contains(tc.codes, f.Code) || !strings.Contains(f.Message, tc.says) {
			t.Errorf("%s: exit code %d, %+v\n%s", tc.name, r.code, f, r.stderr)
		}
		expect.Equal(t, "Pods that are left", len(c.pods(h)), 0)
	}
}

// A long-lived agent has its Pod from turn to turn, also when the daemon is killed, and its state when the Pod was
// stopped because it was idle.
func TestKubernetesAgent(t *testing.T) {
	c := newCluster(t)
	h := c.home("HOLON_MODEL=" + scripted(t, "counting"))
	prompt := func(want string) {
		t.Helper()
		if r := h.run(h.dir, "prompt", "--follow", "--quiet", "count"); r.code != 0 || strings.TrimSpace(r.stdout) != want {
			t.Fatalf("exit code %d, %q, want %q\n%s", r.code, r.stdout, want, r.stderr)
		}
	}
	start := func() {
		t.Helper()
		if r := h.run(h.dir, "daemon", "start"); r.code != 0 {
			t.Fatalf("exit code %d\n%s", r.code, r.stderr)
		}
	}
	start()
	defer h.run(h.dir, "daemon", "stop")
	prompt("first count 1")
	prompt("second count 2")
	before := c.pods(h)
	expect.Equal(t, "Pods of the agent", len(before), 1)

	c.Ask("stop kube-apiserver") // the idle agent keeps its Pod
	stopped := time.Now()
	await(t, "what looks after idle agents to find no way", func() bool { return time.Since(stopped) > 20*time.Second })
	c.Ask("start kube-apiserver")

	following := h.begin(h.dir, "prompt", "--follow", "--quiet", "wait")
	await(t, "the agent's command", func() bool { return c.in(h, "test -e started") })
	h.killDaemon()
	following.wait()
	start()
	await(t, "the command to go on", func() bool { return c.in(h, "touch go") })
	await(t, "the turn to end", func() bool {
		return strings.Contains(h.run(h.dir, "transcript", "--limit", "5").stdout, "third count 3")
	})
	if now := c.pods(h); !slices.Equal(now, before) {
		t.Errorf("Pods are %v, were %v", now, before)
	}

	h.killDaemon()
	h.env = append(h.env, "HOLON_IDLE_STOP=1s")
	start()
	await(t, "the Pod to be stopped", func() bool { return len(c.pods(h)) == 0 })
	prompt("fourth count 4")
	expect.Equal(t, "exit code of the end", h.run(h.dir, "daemon", "stop").code, 0)
	expect.Equal(t, "Pods that are left", len(c.pods(h)), 0)
}

// killDaemon kills the daemon of the home, and waits until it is gone.
func (h *home) killDaemon() {
	h.t.Helper()
	var daemon struct{ PID int }
	data, err := os.ReadFile(filepath.Join(h.dir, "run", "daemon.json"))
	expect.NoError(h.t, err)
	expect.NoError(h.t, json.Unmarshal(data, &daemon))
	expect.NoError(h.t, syscall.Kill(daemon.PID, syscall.SIGKILL))
	await(h.t, "the daemon's end", func() bool { return h.run(h.dir, "daemon", "status").code != 0 })
}
