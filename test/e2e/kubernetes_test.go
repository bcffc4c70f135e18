package e2e

import (
	"archive/tar"
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/kubernetes"
	"holon/state"
	"holon/test/expect"
	"holon/test/programs"
)

// cluster is one of .ci/with-kubernetes.
type cluster struct {
	t      *testing.T
	engine *kubernetes.Engine
}

// agentdImage is what brings agentd to a Pod.
const agentdImage = "holon-test/agentd:test"

func newCluster(t *testing.T) *cluster {
	config := os.Getenv("HOLON_TEST_KUBECONFIG")
	if testing.Short() || config == "" {
		t.Skip("the full tier plays it, with .ci/with-kubernetes")
	}
	t.Setenv("KUBECONFIG", config)
	eng, err := kubernetes.New(kubernetes.Options{AgentdImage: agentdImage})
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, eng.Close()) })
	c := &cluster{t, eng}
	c.importAgentd()
	c.ask("load " + agentdImage)
	docker(t, "tag", baseImage, "holon-test/base:test") // :latest would be pulled
	c.ask("load holon-test/base:test")
	return c
}

// importAgentd makes the image.
func (c *cluster) importAgentd() {
	program, err := os.ReadFile(programs.Must("agentd"))
	expect.NoError(c.t, err)
	var image bytes.Buffer
	tw := tar.NewWriter(&image)
	expect.NoError(c.t, tw.WriteHeader(&tar.Header{Name: "holon/bin/agentd", Mode: 0o755, Size: int64(len(program))}))
	_, err = tw.Write(program)
	expect.NoError(c.t, errors.Join(err, tw.Close()))
	cmd := exec.CommandContext(c.t.Context(), "docker", "import", "-", agentdImage)
	cmd.Stdin = &image
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("docker import: %v\n%s", err, out)
	}
}

// ask has the cluster do something.
func (c *cluster) ask(line string) {
	c.t.Helper()
	conn, err := net.Dial("unix", os.Getenv("HOLON_TEST_KUBERNETES_CONTROL"))
	expect.NoError(c.t, err)
	defer conn.Close()
	_, err = fmt.Fprintln(conn, line)
	expect.NoError(c.t, err)
	answer, err := bufio.NewReader(conn).ReadString('\n')
	if strings.TrimSpace(answer) != "ok" {
		c.t.Fatalf("%s: %q, %v", line, answer, err)
	}
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
	h := newHome(t, "HOLON_ENGINE=kubernetes", "KUBECONFIG="+os.Getenv("KUBECONFIG"), "HOLON_IMAGE=holon-test/base:test",
		"HOLON_KUBERNETES_AGENTD_IMAGE="+agentdImage)
	repo := repository(t, "echo a > a; mkdir d; echo b > d/b; ln -s d/b link")
	begin := func() *process {
		p := h.begin(repo, "run", "--model", scripted(t, "pausing"), "--timeout", "5m", "--accept-weaker",
			"cgroup,network,pids,tmpfs", "count")
		await(t, "the agent's command", func() bool { return c.in(h, "test -e started") })
		return p
	}

	p := begin()
	c.ask("stop kube-apiserver")
	c.ask("start kube-apiserver")
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
