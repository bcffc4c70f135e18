// Package docker runs programs in hardened containers of a Docker engine (API
// 1.41 or newer: Docker 20.10, or any engine with that API).
//
// It is the only importer of the Docker client, because that module has a
// successor: none of the client's types leave this package.
//
// The invariant: every container has the hardening of package engine, set
// explicitly where an image or the daemon could have another opinion (entry
// point, stop signal, health check, init, log driver, cgroup namespace). What
// Inspect reports comes from the daemon's answer alone.
//
// It pulls nothing. A daemon that shares no directory with this machine gets
// copies instead of mounts, see apart.go.
package docker

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/system"
	"github.com/docker/docker/api/types/versions"
	"github.com/docker/docker/client"

	"holon/runner/engine"
)

const (
	name          = "docker"
	minAPIVersion = "1.41"

	// callTimeout bounds every call that does not wait for a program. A
	// daemon with a busy disk takes seconds to create or remove.
	callTimeout = 60 * time.Second
	// settleTimeout is how long a cancelled Create waits for the daemon's
	// answer, without which it cannot know what to clean up.
	settleTimeout = 10 * time.Second
)

// Engine is the docker engine. It holds connections and no state of programs.
type Engine struct {
	api      *client.Client
	register register
	link     string // engine.LinkAuto and so on

	mu       sync.Mutex
	info     *system.Info // the last answer; the daemon's own set-up, read once
	answerer string       // the same of what answers, "" before

	unnoted sync.Map // nonces of containers whose maker had not noted their id when they were listed, by id
}

var _ engine.Engine = (*Engine)(nil)

// New makes a client for the daemon at host, such as
// "unix:///var/run/docker.sock". An empty host means what the Docker tools
// mean by it: DOCKER_HOST with its TLS variables, their current context, or the
// default socket. It does not connect: the first call does. The directory registerDir keeps which
// containers were made with it, and List finds only those; with "" every
// container counts that has the labels.
func New(host, registerDir string) (*Engine, error) {
	options := []client.Opt{client.WithVersionFromEnv(), client.WithAPIVersionNegotiation()}
	if host = cmp.Or(host, os.Getenv(client.EnvOverrideHost)); host != "" {
		options = append(options, withHost(host), withCertificates(host))
	} else {
		named, err := contextOptions()
		if err != nil {
			return nil, unusable(err)
		}
		options = append(options, named...)
	}
	api, err := client.NewClientWithOpts(options...)
	if err != nil {
		return nil, unusable(err)
	}
	return &Engine{api: api, register: register{registerDir}}, nil
}

// SetLink chooses how the containers that are made from now on are reached: engine.LinkAuto, which holds without it,
// LinkMounts or LinkStream.
func (e *Engine) SetLink(link string) { e.link = link }

// Name implements engine.Engine.
func (e *Engine) Name() string { return name }

// Path implements engine.Engine: a container sees the targets of its mounts.
func (e *Engine) Path(_ []engine.Mount, target string) string { return target }

// Close implements engine.Engine.
func (e *Engine) Close() error { return e.api.Close() }

// Check implements engine.Engine. A daemon too old for the hardening, or one
// that runs other than Linux containers, is CodeUnreachable.
func (e *Engine) Check(ctx context.Context) (engine.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	ping, err := e.api.Ping(ctx)
	if err != nil {
		return engine.Info{}, wrap("reach the Docker engine", err)
	}
	if versions.LessThan(ping.APIVersion, minAPIVersion) {
		return engine.Info{}, &engine.Error{Code: engine.CodeUnreachable, Param: "engine",
			Message: "the Docker engine speaks API " + ping.APIVersion + ", at least " + minAPIVersion + " is needed",
			Hint:    "install Docker 20.10 or newer"}
	}
	if ping.OSType != "" && ping.OSType != "linux" {
		return engine.Info{}, &engine.Error{Code: engine.CodeUnreachable, Param: "engine",
			Message: "the Docker engine runs " + ping.OSType + " containers", Hint: "switch it to Linux containers"}
	}
	e.forget()
	info, err := e.daemon(ctx)
	if err != nil {
		return engine.Info{}, wrap("ask the Docker engine about itself", err)
	}
	product, err := e.product(ctx)
	if err != nil {
		return engine.Info{}, err
	}
	_, rootless := securityOption(info, "rootless")
	return engine.Info{
		Engine: name, Product: product, Name: info.Name + " (" + e.api.DaemonHost() + ")",
		Version: info.ServerVersion, APIVersion: e.api.ClientVersion(), CgroupVersion: info.CgroupVersion,
		Runtime: info.DefaultRuntime, Rootless: rootless,
	}, nil
}

// desktop is how Docker Desktop calls its system.
const desktop = "Docker Desktop"

// product tells apart what speaks Docker's API, asking once. A Docker Engine says nothing of itself that the others do
// not.
func (e *Engine) product(ctx context.Context) (string, error) {
	info, err := e.daemon(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	var version types.Version
	if err == nil && e.answerer == "" {
		version, err = e.api.ServerVersion(ctx)
	}
	isPodman := func(c types.ComponentVersion) bool { return c.Name == "Podman Engine" }
	switch {
	case err != nil:
		return "", wrap("ask the Docker engine for its version", err)
	case e.answerer != "":
	case slices.ContainsFunc(version.Components, isPodman):
		e.answerer = engine.ProductPodman
	case info.OperatingSystem == desktop:
		e.answerer = engine.ProductDesktop
	default:
		e.answerer = engine.ProductDocker
	}
	return e.answerer, nil
}

// daemon returns what the daemon says of its own set-up, asking once: seccomp
// profile and runtimes change only with a restart of the daemon, which Check
// notices.
func (e *Engine) daemon(ctx context.Context) (*system.Info, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.info == nil {
		info, err := e.api.Info(ctx)
		if err != nil {
			return nil, err
		}
		e.info = &info
	}
	return e.info, nil
}

func (e *Engine) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.info, e.answerer = nil, ""
}

// securityOption finds an entry of the daemon's SecurityOptions, which look
// like "name=seccomp,profile=default", and returns what follows its name.
func securityOption(info *system.Info, option string) (rest string, ok bool) {
	for _, entry := range info.SecurityOptions {
		first, rest, _ := strings.Cut(entry, ",")
		if first == "name="+option {
			return rest, true
		}
	}
	return "", false
}

func seccompProfile(info *system.Info) string {
	rest, ok := securityOption(info, "seccomp")
	if !ok {
		return "none"
	}
	return strings.TrimPrefix(rest, "profile=")
}

// socketPath is the daemon's own socket on this machine, or "".
func (e *Engine) socketPath() string {
	socket, ok := strings.CutPrefix(e.api.DaemonHost(), "unix://")
	if !ok {
		return ""
	}
	if resolved, err := filepath.EvalSymlinks(socket); err == nil {
		return resolved
	}
	return socket
}
