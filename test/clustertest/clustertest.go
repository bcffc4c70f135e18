// Package clustertest is the Kubernetes cluster of .ci/with-kubernetes, for the tests of the full tier.
package clustertest

import (
	"archive/tar"
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"holon/test/expect"
	"holon/test/programs"
)

// Cluster is a cluster of one node that one test uses at a time: it may stop parts of it.
type Cluster struct {
	Kubeconfig  string // a file, of an administrator
	AgentdImage string // which the node has

	t testing.TB
}

// Open waits for the cluster and takes it until the end of a test. The test is skipped in the fast tier, and without a
// cluster.
func Open(t testing.TB) *Cluster {
	t.Helper()
	c := &Cluster{Kubeconfig: os.Getenv("HOLON_TEST_KUBECONFIG"), t: t}
	if testing.Short() || c.Kubeconfig == "" {
		t.Skip("the full tier plays it, with .ci/with-kubernetes")
	}
	lock, err := os.OpenFile(c.Kubeconfig, os.O_RDONLY, 0) // of all packages
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, lock.Close()) })
	expect.NoError(t, syscall.Flock(int(lock.Fd()), syscall.LOCK_EX))
	agentd, err := os.ReadFile(programs.Must("agentd"))
	expect.NoError(t, err)
	c.AgentdImage = c.Import("", map[string][]byte{"holon/bin/agentd": agentd})
	return c
}

// Import makes an image of programs by their paths, and of changes as in a Dockerfile, and brings it to the node. It
// has a name of its own for "".
func (c *Cluster) Import(image string, files map[string][]byte, changes ...string) string {
	c.t.Helper()
	var archive bytes.Buffer
	tw := tar.NewWriter(&archive)
	for name, data := range files {
		expect.NoError(c.t, tw.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(data))}))
		_, err := tw.Write(data)
		expect.NoError(c.t, err)
	}
	expect.NoError(c.t, tw.Close())
	image = cmp.Or(image, newName())
	args := []string{"import"}
	for _, change := range changes {
		args = append(args, "--change", change)
	}
	c.docker(&archive, append(args, "-", image)...)
	c.load(image)
	return image
}

// Load brings an image of the Docker engine to the node, under a name that the cluster does not pull.
func (c *Cluster) Load(of string) (image string) {
	c.t.Helper()
	image = newName()
	c.docker(nil, "tag", of, image)
	c.load(image)
	return image
}

// newName has a tag other than latest, which would be pulled.
func newName() string { return "holon-test/" + strings.ToLower(rand.Text()) + ":test" }

func (c *Cluster) load(image string) {
	c.t.Helper()
	defer c.docker(nil, "rmi", "--no-prune", image)
	c.Ask("load " + image)
}

func (c *Cluster) docker(in *bytes.Buffer, args ...string) {
	c.t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(c.t.Context()), "docker", args...)
	if in != nil {
		cmd.Stdin = in
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		c.t.Fatalf("docker %s: %v\n%s", args[0], err, out)
	}
}

// Ask has the cluster do something: "stop COMPONENT", "start COMPONENT".
func (c *Cluster) Ask(line string) {
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
