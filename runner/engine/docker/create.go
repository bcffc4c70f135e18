package docker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/client"
	"github.com/docker/go-units"

	"holon/runner/engine"
)

// createLabel holds a random word per call of Create, by which a call whose
// answer was lost recognizes its own container.
const createLabel = "holon.create"

// Create implements engine.Engine.
func (e *Engine) Create(ctx context.Context, spec engine.Spec) (engine.Handle, error) {
	config, host, spec, err := e.prepare(ctx, spec)
	if err != nil {
		return engine.Handle{}, err
	}
	streams, err := e.Streams(ctx)
	if err != nil || !streams || spec.Service != nil {
		if err == nil {
			return e.make(ctx, spec, config, host, spec.Name)
		}
		return engine.Handle{}, wrapCreate(spec, err)
	}
	return e.createApart(ctx, spec, config, host)
}

// make makes one container. On error none is left.
func (e *Engine) make(ctx context.Context, spec engine.Spec, config *container.Config, host *container.HostConfig,
	containerName string) (engine.Handle, error) {
	nonce := rand.Text()
	config.Labels[createLabel] = nonce
	info, err := e.daemon(ctx)
	if err == nil {
		err = e.register.announce(nonce, info.ID)
	}
	if err != nil {
		return engine.Handle{}, wrapCreate(spec, err)
	}

	// The daemon goes on creating when its client hangs up, so the call is not
	// cut off at once when ctx ends: its answer says what there is to remove.
	call, cancel := settling(ctx)
	defer cancel()
	created, err := e.api.ContainerCreate(call, config, host, nil, nil, containerName)
	if err != nil && mentions(err, "opening seccomp profile failed") {
		// Podman 4.3 takes a path for the filter itself, and gives the container a filter of its own instead.
		isFilter := func(option string) bool { return strings.HasPrefix(option, "seccomp=") }
		host.SecurityOpt = slices.DeleteFunc(host.SecurityOpt, isFilter)
		created, err = e.api.ContainerCreate(call, config, host, nil, nil, containerName)
	}
	if err != nil && mentions(err, "nr_inodes", "unknown mount option") {
		// Podman takes no such limit. What Inspect reads back then says so.
		host.Tmpfs = withoutInodes(host.Tmpfs)
		created, err = e.api.ContainerCreate(call, config, host, nil, nil, containerName)
	}
	if err == nil {
		err = ctx.Err()
	}
	if err == nil {
		err = e.register.made(nonce, created.ID)
	}
	if err == nil {
		return engine.Handle{Version: engine.HandleVersion, Engine: name, ID: created.ID, Name: containerName}, nil
	}
	gone, cleanupErr := e.undoCreate(ctx, created.ID, containerName, nonce, err)
	if gone { // otherwise the register keeps the nonce, so that List finds the container
		cleanupErr = e.register.forget(nonce)
	}
	if ctx.Err() != nil {
		err = fmt.Errorf("create container %s: %w", containerName, context.Cause(ctx))
	} else {
		err = wrapCreate(spec, err)
	}
	return engine.Handle{}, errors.Join(err, cleanupErr)
}

// prepare checks a spec, completes it and translates it for the daemon.
func (e *Engine) prepare(ctx context.Context, spec engine.Spec) (config *container.Config, host *container.HostConfig,
	complete engine.Spec, err error) {
	if complete, err = spec.Complete(); err != nil {
		return nil, nil, complete, err
	}
	if err = e.checkSocket(complete); err != nil {
		return nil, nil, complete, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	info, err := e.daemon(ctx)
	if err != nil {
		return nil, nil, complete, wrap("create container "+complete.Name, err)
	}
	found, err := e.inspectImage(ctx, complete)
	if err != nil {
		return nil, nil, complete, err
	}
	if complete.NanoCPUs == 0 { // more than the machine has are refused
		complete.NanoCPUs = engine.DefaultNanoCPUs
		if info.NCPU > 0 {
			complete.NanoCPUs = min(complete.NanoCPUs, int64(info.NCPU)*1e9)
		}
	}
	complete.Memory, complete.NanoCPUs = complete.Portion.Take(complete.Memory), complete.Portion.Take(complete.NanoCPUs)
	config, host = request(complete)
	host.SecurityOpt = append(host.SecurityOpt, "seccomp="+seccompText)
	// Where user ids are mapped, the kernel would count the limits of all containers as those of one user.
	if _, mapped := securityOption(info, "userns"); mapped {
		host.UsernsMode = "host"
	}
	overrule(config, found)
	if complete.Service != nil {
		asImage(config, host, complete, found)
		return config, host, complete, nil
	}
	return config, host, complete, checkVolumes(complete, found)
}

// settling returns a context with the values of ctx that ends settleTimeout
// after ctx does, or after callTimeout.
func settling(ctx context.Context) (context.Context, context.CancelFunc) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-call.Done():
		case <-time.After(settleTimeout):
			cancel()
		}
	})
	return call, func() { stop(); cancel() }
}

// undoCreate removes the container of a Create that fails with cause, and reports
// whether there certainly is none. An answer from the daemon with an error means
// that none was made. When the answer was lost, the container is recognized by its
// name and nonce; without it, or without a daemon, one may still appear.
func (e *Engine) undoCreate(ctx context.Context, id, containerName, nonce string, cause error) (gone bool, err error) {
	if id == "" && isAnswer(cause) {
		return true, nil
	}
	// Cleaning up outlives the request that is being undone.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	if id == "" {
		found, err := e.api.ContainerInspect(ctx, containerName)
		if err != nil {
			return false, nil //nolint:nilerr // cause says already that the daemon is away
		}
		if found.Config.Labels[createLabel] != nonce {
			return true, nil // another container has the name
		}
		id = found.ID
	}
	err = e.remove(ctx, id, containerName)
	return err == nil, err
}

// checkSocket refuses what only this engine can judge: a mount that shows the
// daemon's socket, itself or in a directory, would hand the machine to the
// container.
func (e *Engine) checkSocket(spec engine.Spec) error {
	socket := e.socketPath()
	if socket == "" {
		return nil
	}
	for _, m := range spec.Mounts {
		source, err := filepath.EvalSymlinks(m.Source)
		if err != nil {
			return fmt.Errorf("resolve mount source: %w", err)
		}
		rel, err := filepath.Rel(source, socket)
		if err == nil && filepath.IsLocal(rel) {
			return &engine.Error{Code: engine.CodeInvalidSpec, Param: "mounts",
				Hint:    "mount a directory that does not hold " + socket,
				Message: "mount source " + m.Source + " would show the Docker socket to the container"}
		}
	}
	return nil
}

// separating are the capabilities of a program that becomes two users.
var separating = []string{"CAP_CHOWN", "CAP_KILL", "CAP_SETGID", "CAP_SETUID"}

// forgetAfter is how long, in seconds, a daemon waits for the end of a program that it could not signal, as happens
// while the program is being started, before it reports an exit that it did not see. It is longer than Stop and Remove
// take to kill the program: otherwise they would report the end of one that runs on, which no engine would list any
// more.
const forgetAfter = 60

// request translates a completed spec. Everything that decides isolation is
// set here; isolation.go reads the same fields back.
func request(spec engine.Spec) (*container.Config, *container.HostConfig) {
	labels := map[string]string{}
	maps.Copy(labels, spec.Labels)
	config := &container.Config{
		Image: spec.Image, Labels: labels,
		Env:         spec.Env,
		StopTimeout: new(forgetAfter),
		Healthcheck: &container.HealthConfig{Test: []string{"NONE"}},
	}
	if spec.Service == nil { // the image's settings for its own service must not apply to our program
		config.Entrypoint, config.WorkingDir, config.StopSignal = spec.Args, "/", "SIGTERM"
		config.User = spec.User.String()
	}
	var capabilities []string
	if spec.Server != nil {
		config.User = "0:0"
		config.Env = append([]string{engine.EnvServer + "=" + spec.Server.String(),
			engine.EnvCommand + "=" + spec.User.String()}, spec.Env...) // of two values the first counts
		capabilities = separating
	}
	noInit := false // the program is process 1 and reaps; one more process would hide it from signals
	host := &container.HostConfig{
		CapDrop:        []string{"ALL"},
		CapAdd:         capabilities,
		SecurityOpt:    []string{"no-new-privileges:true"},
		ReadonlyRootfs: true,
		NetworkMode:    container.NetworkMode(spec.Network),
		IpcMode:        container.IPCModePrivate,
		CgroupnsMode:   container.CgroupnsModePrivate,
		Init:           &noInit,
		Runtime:        spec.Runtime,
		ShmSize:        engine.ShmSize,
		Tmpfs:          tmpfs(spec),
		Mounts:         binds(spec.Mounts),
		LogConfig: container.LogConfig{Type: "json-file",
			Config: map[string]string{"max-size": "5m", "max-file": "2"}},
		RestartPolicy: container.RestartPolicy{Name: container.RestartPolicyDisabled},
		Resources:     resources(spec),
	}
	for _, name := range spec.Hosts {
		host.ExtraHosts = append(host.ExtraHosts, name+":127.0.0.1")
	}
	return config, host
}

func resources(spec engine.Spec) container.Resources {
	limits := container.Resources{
		NanoCPUs: spec.NanoCPUs,
		Ulimits: []*units.Ulimit{
			{Name: "nofile", Soft: engine.MaxOpenFiles, Hard: engine.MaxOpenFiles},
			{Name: "core"}, // no core dumps
			{Name: "fsize", Soft: engine.MaxFileSize, Hard: engine.MaxFileSize},
		},
		PidsLimit: new(spec.Portion.Take(engine.MaxPids)),
	}
	if spec.Memory != engine.Unlimited {
		limits.Memory, limits.MemorySwap = spec.Memory, spec.Memory // no swap on top
	}
	return limits
}

func binds(mounts []engine.Mount) []mount.Mount {
	out := make([]mount.Mount, 0, len(mounts))
	for _, m := range mounts {
		out = append(out, mount.Mount{
			Type: mount.TypeBind, Source: m.Source, Target: m.Target, ReadOnly: m.ReadOnly,
			BindOptions: &mount.BindOptions{
				Propagation: mount.PropagationRPrivate,
				// Engines before 25 make only the top of a read-only mount read-only.
				NonRecursive: m.ReadOnly,
			},
		})
	}
	return out
}

// tmpfs writes the options of the file systems in memory. They belong to the
// container's user, because runc gives them the mode that the directory has in
// the image.
func tmpfs(spec engine.Spec) map[string]string {
	owner := ""
	if spec.User != nil {
		owner = fmt.Sprintf("uid=%d,gid=%d", spec.User.UID, spec.User.GID)
	}
	out := make(map[string]string)
	for _, t := range engine.AllTmpfs() {
		out[t.Target] = tmpfsOptions(t, owner)
	}
	return out
}

// tmpfsOptions writes those of one, for the owner "uid=N,gid=N", "" for root.
func tmpfsOptions(t engine.Tmpfs, owner string) string {
	exec := "exec"
	if t.NoExec {
		exec = "noexec"
	}
	options := fmt.Sprintf("rw,%s,nosuid,nodev,mode=1777,size=%d,nr_inodes=%d", exec, t.Size, t.Inodes())
	if owner != "" {
		options += "," + owner
	}
	return options
}

// withoutInodes takes out what Podman does not know.
func withoutInodes(all map[string]string) map[string]string {
	out := make(map[string]string)
	for target, options := range all {
		before, _, _ := strings.Cut(options, ",nr_inodes=")
		out[target] = before
	}
	return out
}

// isAnswer reports whether err came from the daemon, rather than from losing it.
func isAnswer(err error) bool {
	return !client.IsErrConnectionFailed(err) && !errors.Is(err, context.Canceled) &&
		!errors.Is(err, context.DeadlineExceeded) && !isTruncated(err)
}
