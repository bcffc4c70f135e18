package kubernetes

import (
	"context"
	"crypto/rand"
	"os"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"holon/runner/engine"
	"holon/state"
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
	return c.Import("", map[string][]byte{"probe": probe, "etc/empty": nil}, `ENTRYPOINT ["/nothing"]`, `CMD ["nothing"]`,
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
		Contains: true, Streams: true, Pods: true, NanoCPUs: 4e8,
		CreateTime: 3 * time.Second,
		Axes: map[string]engine.Axis{
			"network": shaped("none, if the cluster's network plugin enforces NetworkPolicy"),
			"pids":    shaped("the node's limit"), "cgroup": shaped("the node's default"),
			"tmpfs":   shaped("/home/agent 536870912/unlimited, /run 67108864/unlimited, /tmp 1073741824/unlimited"),
			"seccomp": hard("default"), "ipc": hard("private to the Pod"), "init": hard("engine's init"),
		},
	})
}

// weather does to Pods what a cluster does.
type weather struct {
	*Engine
	t *testing.T
}

// evict evicts a Pod by the API, as the draining of a node does.
func (w weather) evict(h engine.Handle) {
	w.t.Helper()
	expect.NoError(w.t, w.core.Post().Namespace(namespaceOf(h)).Resource("pods").Name(h.Name).SubResource("eviction").
		SetHeader("Content-Type", "application/json").Body([]byte(
		`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":"`+h.Name+`"}}`)).Do(w.t.Context()).Error())
}

// What ends a Pod that the program did not ends Wait with a reason. Its files are lost with it.
func TestWeather(t *testing.T) {
	c := clustertest.Open(t)
	w := weather{connect(t, c), t}
	defer w.Close()
	image := suiteImage(t, c)
	for name, tc := range map[string]struct {
		happens func(engine.Handle)
		why     string
	}{
		"evicted": {w.evict, "EvictionByEvictionAPI"},
		"node gone": {func(engine.Handle) {
			c.Ask("stop kubelet")
			t.Cleanup(func() { c.Ask("start kubelet") })
		}, "node node does not answer; DeletionByTaintManager"},
	} {
		t.Run(name, func(t *testing.T) {
			w.t = t
			h, err := w.Create(t.Context(), engine.Spec{Name: "weather-" + strings.ToLower(rand.Text()), Image: image,
				Args: []string{"/probe", "stubborn"}, Labels: map[string]string{"holon.weather": "1"}})
			expect.NoError(t, err)
			defer func() { expect.NoError(t, w.Remove(context.WithoutCancel(t.Context()), h)) }()
			expect.NoError(t, w.Start(t.Context(), h))
			tc.happens(h)
			exit, err := w.Wait(t.Context(), h)
			if err != nil || exit.Code == 0 || !strings.HasPrefix(exit.Error, tc.why) {
				t.Errorf("Wait = %+v, %v, want %q", exit, err, tc.why)
			}
			if _, err := w.Inspect(t.Context(), h); !gone(err) {
				t.Errorf("Inspect = %v, want %s", err, engine.CodeNotFound)
			}
		})
	}
}

// An image that cannot be pulled at first is tried again, and one that never comes is an error in the end.
func TestLateImage(t *testing.T) {
	c := clustertest.Open(t)
	e := connect(t, c)
	defer e.Close()
	create := func(image string) error {
		h, err := e.Create(t.Context(), engine.Spec{Name: "late", Image: image, Args: []string{"/probe"},
			Labels: map[string]string{"holon.late": "1"}})
		if err == nil {
			err = e.Remove(t.Context(), h)
		}
		return err
	}
	late := "127.0.0.1:1/late:1" // where no registry listens
	created := make(chan error, 1)
	go func() { created <- create(late) }()
	fails := func() bool {
		list, err := e.List(t.Context(), map[string]string{"holon.late": "1"})
		if err != nil || len(list) != 1 {
			return false
		}
		pod, err := e.find(t.Context(), list[0].Handle)
		if err == nil {
			_, err = judge(pod)
		}
		return state.IsCode(err, engine.CodeImageNotFound)
	}
	for !fails() && sleep(t.Context(), firstPause) {
	}
	c.Import(late, map[string][]byte{"probe": nil})
	expect.NoError(t, <-created)

	err := create("127.0.0.1:1/never:1")
	if !state.IsCode(err, engine.CodeImageNotFound) {
		t.Errorf("an image that never comes: %v", err)
	}
}
