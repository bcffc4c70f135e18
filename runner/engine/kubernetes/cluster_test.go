package kubernetes

import (
	"os"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"holon/runner/engine"
	"holon/test/clustertest"
	"holon/test/enginetest"
	"holon/test/expect"
)

func TestMain(m *testing.M) { enginetest.Main(m, nil) }

// suiteImage has the suite's program, and settings that contradict ours in every way an image can.
func suiteImage(t *testing.T, c *clustertest.Cluster) string {
	t.Helper()
	probe, err := os.ReadFile(enginetest.Program)
	expect.NoError(t, err)
	return c.Import(map[string][]byte{"probe": probe, "etc/empty": nil}, `ENTRYPOINT ["/nothing"]`, `CMD ["nothing"]`,
		"USER 4242:4242", "WORKDIR /nowhere", "ENV TEXT=of-the-image")
}

func connect(t *testing.T, c *clustertest.Cluster) *Engine {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", c.Kubeconfig)
	expect.NoError(t, err)
	e, err := newEngine(Options{AgentdImage: c.AgentdImage}, config, "default")
	expect.NoError(t, err)
	return e
}

// A Pod passes the suite of all engines, but for what a cluster does not promise.
func TestSuite(t *testing.T) {
	c := clustertest.Open(t)
	hard := func(value string) engine.Axis { return axis(engine.HardEnforced, value) }
	shaped := func(value string) engine.Axis { return axis(engine.RuntimeShaped, value) }
	enginetest.Run(t, enginetest.Rig{
		New: func(t *testing.T) engine.Engine { return connect(t, c) }, Image: suiteImage(t, c), Program: "/probe",
		Contains: true, Streams: true, Pods: true, CreateTime: 3 * time.Second,
		Axes: map[string]engine.Axis{
			"network": shaped("none, if the cluster's network plugin enforces NetworkPolicy"),
			"pids":    shaped("the node's limit"), "cgroup": shaped("the node's default"),
			"tmpfs":   shaped("/home/agent 536870912/unlimited, /run 67108864/unlimited, /tmp 1073741824/unlimited"),
			"seccomp": hard("default"), "ipc": hard("private to the Pod"), "init": hard("engine's init"),
		},
	})
}
