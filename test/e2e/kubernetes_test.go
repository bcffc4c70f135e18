package e2e

import (
	"io"
	"strings"
	"testing"

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
func (c *cluster) home() *home {
	return newHome(c.t, "HOLON_ENGINE=kubernetes", "KUBECONFIG="+c.Kubeconfig, "HOLON_IMAGE="+c.base,
		"HOLON_KUBERNETES_AGENTD_IMAGE="+c.AgentdImage)
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

// A run in a Pod is like another: its result, and what is left when holon is killed and the run attached to. It goes on
// while the API server is away, and ends with its Pod.
func TestKubernetes(t *testing.T) {
	c := newCluster(t)
	h := c.home()
	repo := repository(t, "echo a > a; mkdir d; echo b > d/b; ln -s d/b link")
	begin := func() *process {
		p := h.begin(repo, "run", "--model", scripted(t, "pausing"), "--timeout", "5m", "--accept-weaker",
			"cgroup,network,pids,tmpfs", "count")
		await(t, "the agent's command", func() bool { return c.in(h, "test -e started") })
		return p
	}

	p := begin()
	c.Ask("stop kube-apiserver")
	c.Ask("start kube-apiserver")
	await(t, "the API server", func() bool { return c.in(h, "grep -q b link && touch go") })
	if r := p.wait(); r.code != 0 || r.manifest.Status != state.StatusCompleted {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}

	p = begin()
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

	p = begin()
	found, err := c.engine.List(t.Context(), map[string]string{runner.LabelHome: h.dir})
	expect.NoError(t, err)
	for _, pod := range found {
		expect.NoError(t, c.engine.Remove(t.Context(), pod.Handle))
	}
	if r := p.wait(); r.code != 1 || r.manifest.Status != state.StatusInterrupted {
		t.Errorf("its Pod is gone: exit code %d, %s\n%s", r.code, r.manifest.Status, r.stderr)
	}
	if left, err := c.engine.List(t.Context(), map[string]string{runner.LabelHome: h.dir}); err != nil || len(left) > 0 {
		t.Errorf("Pods are left: %v, %v", left, err)
	}
}
