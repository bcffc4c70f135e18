package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// privateDirs are the directories that programs of the cluster write to whatever their settings say. Each is an empty
// one of the cluster's own.
var privateDirs = []string{"/run/containerd", "/run/netns", "/var/lib/cni", "/var/lib/kubelet", "/var/log/pods",
	"/var/log/containers"}

// sysctls are settings of the whole machine that the kubelet would change: it changes copies.
var sysctls = []string{"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
	"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes"}

// inside starts the cluster within its namespaces, prints "ready", closes standard output and works until it is killed.
func inside(tools, dir, cgroup string) error {
	ctx, cancel := context.WithTimeout(context.Background(), startWithin)
	defer cancel()
	if err := separate(ctx, dir); err != nil {
		return fmt.Errorf("separate the cluster from the machine: %w", err)
	}
	c := &cluster{dir: dir, tools: tools, running: map[string]*exec.Cmd{}, components: components(dir, cgroup)}
	for _, component := range c.components {
		if err := c.start(component.name); err != nil {
			return err
		}
		if component.socket == "" {
			continue
		}
		err := awaitSocket(ctx, component.socket)
		if err == nil && component.name == "kube-apiserver" {
			err = c.awaitAPI(ctx)
		}
		if err != nil {
			return errors.Join(err, c.logs())
		}
	}
	api, err := net.Listen("unix", filepath.Join(dir, "api.sock"))
	if err != nil {
		return err
	}
	go relay(api, "tcp", "127.0.0.1:"+apiPort)
	if err := errors.Join(c.awaitReady(ctx), c.addSpare(ctx)); err != nil {
		return errors.Join(err, c.logs())
	}
	control, err := net.Listen("unix", filepath.Join(dir, "control.sock"))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	_ = os.Stdout.Close()
	for {
		conn, err := control.Accept()
		if err != nil {
			return err
		}
		go c.serve(conn)
	}
}

// awaitSocket waits until a component takes connections: those that follow would end without it.
func awaitSocket(ctx context.Context, address string) error {
	network, address, _ := strings.Cut(address, ":")
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		conn, err := net.Dial(network, address)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for %s: %w", address, err)
		}
	}
}

// separate prepares mounts and network.
func separate(ctx context.Context, dir string) error {
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := syscall.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	for _, private := range privateDirs {
		own := filepath.Join(dir, "private", private)
		if err := errors.Join(os.MkdirAll(private, 0o755), os.MkdirAll(own, 0o755)); err != nil {
			return err
		}
		if err := syscall.Mount(own, private, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", private, err)
		}
	}
	for _, name := range sysctls {
		path, own := filepath.Join("/proc/sys", name), filepath.Join(dir, "private", filepath.Base(name))
		value, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if err := os.WriteFile(own, value, 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(own, path, "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	for _, args := range []string{"link set lo up", "address add " + nodeIP + "/32 dev lo",
		"address add " + serviceIP + "/32 dev lo"} {
		if out, err := exec.CommandContext(ctx, "ip", strings.Fields(args)...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %s: %w: %s", args, err, out)
		}
	}
	return nil
}

// cluster is the components that run.
type cluster struct {
	dir, tools string
	components []component

	mu      sync.Mutex
	running map[string]*exec.Cmd
}

// serve answers one line of the control socket.
func (c *cluster) serve(conn net.Conn) {
	defer conn.Close()
	line, _ := bufio.NewReader(conn).ReadString('\n')
	verb, what, _ := strings.Cut(strings.TrimSpace(line), " ")
	err := fmt.Errorf("%q is not a command: use load IMAGE, expose PORT SOCKET, stop COMPONENT or start COMPONENT", verb)
	switch verb {
	case "load":
		err = c.load(context.Background(), what)
	case "expose":
		err = expose(what)
	case "stop":
		err = c.stop(what)
	case "start":
		err = c.start(what)
	}
	if err != nil {
		fmt.Fprintln(conn, err)
		return
	}
	fmt.Fprintln(conn, "ok")
}

// expose lets Pods reach a Unix socket of the machine by a port of the node.
func expose(what string) error {
	port, socket, _ := strings.Cut(what, " ")
	listener, err := net.Listen("tcp", net.JoinHostPort(nodeIP, port))
	if err == nil {
		go relay(listener, "unix", socket) // until the cluster ends
	}
	return err
}

// start starts a component; its output is in LOG of the directory.
func (c *cluster) start(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, component := range c.components {
		if component.name != name {
			continue
		}
		if c.running[name] != nil {
			return nil
		}
		log, err := os.OpenFile(filepath.Join(c.dir, name+".log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer log.Close()
		program := filepath.Join(c.tools, name)
		if _, err := os.Stat(program); err != nil {
			program = name // of the system
		}
		cmd := exec.Command(program, component.args...)
		cmd.Stdout, cmd.Stderr = log, log
		if err := cmd.Start(); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
		c.running[name] = cmd
		return nil
	}
	return fmt.Errorf("%q is not a component", name)
}

// stop kills a component; its containers stay.
func (c *cluster) stop(name string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	cmd := c.running[name]
	if cmd == nil {
		return fmt.Errorf("%q does not run", name)
	}
	delete(c.running, name)
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it was killed
	return nil
}

// load brings an image of the Docker engine to the node, under its name.
func (c *cluster) load(ctx context.Context, image string) error {
	return c.pour(ctx, exec.CommandContext(ctx, "docker", "save", "--", image))
}

// pour imports what a command prints, an archive of images.
func (c *cluster) pour(ctx context.Context, from *exec.Cmd) error {
	var said bytes.Buffer
	to := exec.CommandContext(ctx, "ctr", "--address", filepath.Join(c.dir, "containerd.sock"), "--namespace", "k8s.io",
		"images", "import", "-")
	to.Stderr, from.Stderr = &said, &said
	var err error
	if to.Stdin, err = from.StdoutPipe(); err != nil {
		return err
	}
	if err := to.Start(); err != nil {
		return err
	}
	if err := errors.Join(from.Run(), to.Wait()); err != nil {
		return fmt.Errorf("import an image: %w: %s", err, said.String())
	}
	return nil
}

// awaitAPI waits until the API server has all that the other components need, such as their roles.
func (c *cluster) awaitAPI(ctx context.Context) error {
	return c.await(ctx, "API server", func(ctx context.Context, client *kubernetes.Clientset) bool {
		return client.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error() == nil
	})
}

// awaitReady waits for the node and for the account that Pods run under, and imports the image of sandboxes.
func (c *cluster) awaitReady(ctx context.Context) error {
	if err := c.await(ctx, "node", ready); err != nil {
		return err
	}
	return c.pour(ctx, exec.CommandContext(ctx, "cat", filepath.Join(c.tools, "pause.tar")))
}

// client is one of an administrator.
func (c *cluster) client() (*kubernetes.Clientset, error) {
	config, err := clientcmd.BuildConfigFromFlags("", filepath.Join(c.dir, "scheduler.kubeconfig"))
	if err != nil {
		return nil, err
	}
	config.CertFile, config.KeyFile = filepath.Join(c.dir, "admin.crt"), filepath.Join(c.dir, "admin.key")
	return kubernetes.NewForConfig(config)
}

// await waits until a condition holds.
func (c *cluster) await(ctx context.Context, what string,
	holds func(context.Context, *kubernetes.Clientset) bool) error {
	client, err := c.client()
	if err != nil {
		return err
	}
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for !holds(ctx, client) {
		select {
		case <-again.C:
		case <-ctx.Done():
			return fmt.Errorf("wait for the %s: %w", what, ctx.Err())
		}
	}
	return nil
}

func ready(ctx context.Context, client *kubernetes.Clientset) bool {
	node, err := client.CoreV1().Nodes().Get(ctx, nodeName, meta.GetOptions{})
	if err != nil {
		return false
	}
	if _, err := client.CoreV1().ServiceAccounts("default").Get(ctx, "default", meta.GetOptions{}); err != nil {
		return false
	}
	for _, condition := range node.Status.Conditions {
		if condition.Type == core.NodeReady {
			return condition.Status == core.ConditionTrue && len(node.Spec.Taints) == 0
		}
	}
	return false
}

// logs is an error with the ends of the logs.
func (c *cluster) logs() error {
	var ends []error
	for _, component := range c.components {
		text, _ := os.ReadFile(filepath.Join(c.dir, component.name+".log"))
		ends = append(ends, fmt.Errorf("%s: %s", component.name, text[max(0, len(text)-1500):]))
	}
	return errors.Join(ends...)
}
