package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/kubernetes"
	"holon/test/load"
)

// place is where the agents and sessions of a daemon have their containers.
type place interface {
	// open is for one daemon: env are its settings, and proxy is its only way to the place.
	open(r *round) (proxy *proxy, env []string, err error)
	// containers lists those of a home, of one agent or of all for "".
	containers(ctx context.Context, home, agent string) ([]string, error)
	// remove removes those of a home.
	remove(home string) error
	// faults are those of containers.
	faults() []fault
}

// dockers is the Docker engine, whose containers are reached by a link.
type dockers struct{ link string }

func (d dockers) open(r *round) (*proxy, []string, error) {
	listener, err := net.Listen("unix", r.path("e"))
	if err != nil {
		return nil, nil, err
	}
	return openProxy(listener, "unix", engineSocket()), []string{"HOLON_ENGINE=docker", "HOLON_LINK=" + d.link,
		"DOCKER_HOST=unix://" + r.path("e")}, nil
}

func (dockers) containers(ctx context.Context, home, agent string) ([]string, error) {
	return load.Containers(ctx, home, agent)
}

func (dockers) remove(home string) error { return load.RemoveContainers(home) }

func (dockers) faults() []fault {
	return []fault{
		{name: "kill agentd", weight: 5, inject: killAgentd},
		{name: "docker kill", weight: 3, inject: docker("kill")},
		{name: "docker rm", weight: 4, inject: docker("rm", "-f")},
		{name: "docker stop", weight: 1, inject: docker("stop", "--time", "1")},
		{name: "docker restart", weight: 1, inject: docker("restart", "--time", "1")},
		{name: "docker pause", weight: 3, inject: pauseContainer},
	}
}

// docker does something to the containers of an agent, if it has any now.
func docker(args ...string) func(ctx context.Context, w *world, b fault) {
	return func(ctx context.Context, w *world, b fault) {
		if ids := load.Must(load.Containers(ctx, w.serve.Home, b.agent)); len(ids) > 0 {
			// it may be gone, or not started yet
			_ = exec.CommandContext(ctx, "docker", append(args[:len(args):len(args)], ids...)...).Run()
		}
	}
}

// pauseContainer holds the container still for a while, under the daemon.
func pauseContainer(ctx context.Context, w *world, b fault) {
	docker("pause")(ctx, w, b)
	pause(ctx, 2*b.wait)
	docker("unpause")(ctx, w, b)
}

// killAgentd kills the first process of the container, which is agentd or the
// little program that starts it.
func killAgentd(ctx context.Context, w *world, b fault) {
	for _, id := range load.Must(load.Containers(ctx, w.serve.Home, b.agent)) {
		out, err := exec.CommandContext(ctx, "docker", "inspect", "--format", "{{.State.Pid}}", id).Output()
		if err != nil {
			continue // gone
		}
		if pid, err := strconv.Atoi(strings.TrimSpace(string(out))); err == nil && pid > 1 {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
		}
	}
}

// pods is a cluster of .ci/with-kubernetes, whose processes run on this machine.
type pods struct {
	kubeconfig, image, agentdImage string
	engine                         *kubernetes.Engine
}

// cluster is the place of options that name one.
func (o options) cluster() (*pods, error) {
	p := &pods{kubeconfig: o.kubeconfig, image: o.image, agentdImage: o.agentdImage}
	err := os.Setenv("KUBECONFIG", o.kubeconfig) // for this engine
	if err == nil {
		p.engine, err = kubernetes.New(kubernetes.Options{AgentdImage: o.agentdImage})
	}
	return p, err
}

// open has the daemon take a proxy for the API server.
func (p *pods) open(r *round) (*proxy, []string, error) {
	config, err := os.ReadFile(p.kubeconfig)
	if err != nil {
		return nil, nil, err
	}
	_, rest, _ := strings.Cut(string(config), "server: https://") // it names one cluster
	server, _, _ := strings.Cut(rest, "\n")
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	file := r.path("kubeconfig")
	err = os.WriteFile(file, bytes.ReplaceAll(config, []byte(server), []byte(listener.Addr().String())), 0o600)
	return openProxy(listener, "tcp", server), []string{"HOLON_ENGINE=kubernetes", "KUBECONFIG=" + file,
		"HOLON_IMAGE=" + p.image, "HOLON_KUBERNETES_AGENTD_IMAGE=" + p.agentdImage,
		"HOLON_ACCEPT_WEAKER=cgroup,network,pids,tmpfs", "HOLON_CPUS=0.25", "HOLON_MEMORY=512m"}, err // a node has few
}

func (p *pods) handles(ctx context.Context, home, agent string) (all []engine.Handle, err error) {
	labels := map[string]string{runner.LabelHome: home}
	if agent != "" {
		labels[runner.LabelAgent] = agent
	}
	found, err := p.engine.List(ctx, labels)
	for _, pod := range found {
		all = append(all, pod.Handle)
	}
	return all, err
}

func (p *pods) containers(ctx context.Context, home, agent string) (names []string, err error) {
	all, err := p.handles(ctx, home, agent)
	for _, h := range all {
		names = append(names, h.Name)
	}
	return names, err
}

func (p *pods) remove(home string) error {
	all, err := p.handles(context.Background(), home, "")
	for _, h := range all {
		err = errors.Join(err, p.engine.Remove(context.Background(), h))
	}
	return err
}

func (p *pods) faults() []fault {
	each := func(do func(context.Context, engine.Handle) error) func(context.Context, *world, fault) {
		return func(ctx context.Context, w *world, b fault) {
			for _, h := range load.Must(p.handles(ctx, w.serve.Home, b.agent)) {
				_ = do(ctx, h) // it may be gone, or not started yet
			}
		}
	}
	return []fault{
		{name: "kill agentd", weight: 5, inject: each(killInPod)},
		{name: "remove the Pod", weight: 4, inject: each(p.engine.Remove)},
		{name: "stop the Pod", weight: 2, inject: each(func(ctx context.Context, h engine.Handle) error {
			return p.engine.Stop(ctx, h, time.Second)
		})},
	}
}

// killInPod kills the agentd of a Pod, which is process 1 of its container.
func killInPod(_ context.Context, h engine.Handle) error {
	uid, _, _ := strings.Cut(h.ID, ".")
	groups, err := filepath.Glob("/proc/[0-9]*/cgroup")
	for _, group := range groups {
		of := filepath.Dir(group)
		content, _ := os.ReadFile(group) // or it has ended
		status, _ := os.ReadFile(filepath.Join(of, "status"))
		exe, _ := os.Readlink(filepath.Join(of, "exe"))
		pid, notOne := strconv.Atoi(filepath.Base(of))
		if notOne == nil && bytes.Contains(content, []byte(uid)) && filepath.Base(exe) == "agentd" && isFirst(status) {
			err = errors.Join(err, syscall.Kill(pid, syscall.SIGKILL))
		}
	}
	return err
}

// isFirst reports whether the status of a process says that it is the first one of its name space.
func isFirst(status []byte) bool {
	for line := range strings.Lines(string(status)) {
		if numbers := strings.Fields(line); len(numbers) > 1 && numbers[0] == "NSpid:" {
			return numbers[len(numbers)-1] == "1"
		}
	}
	return false
}
