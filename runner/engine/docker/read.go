package docker

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/pkg/stdcopy"

	"holon/runner/engine"
)

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]engine.Summary, error) {
	if err := engine.CheckLabels(labels); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	filter := filters.NewArgs()
	for key, value := range labels {
		filter.Add("label", key+"="+value)
	}
	found, err := e.api.ContainerList(ctx, container.ListOptions{All: true, Filters: filter})
	if err != nil {
		return nil, wrap("list containers", err)
	}
	if err := e.dropGone(ctx, found); err != nil {
		return nil, err
	}
	out := make([]engine.Summary, 0, len(found))
	for _, c := range found {
		nonce := c.Labels[createLabel]
		if !e.register.knows(nonce, c.ID) {
			continue
		}
		if !e.register.noted(c.ID) {
			e.unnoted.Store(c.ID, nonce)
		}
		containerName := ""
		if len(c.Names) > 0 { // none while it is being removed
			containerName = strings.TrimPrefix(c.Names[0], "/")
		}
		if containerName == "" {
			containerName = c.ID
		}
		out = append(out, engine.Summary{
			Handle: engine.Handle{Version: engine.HandleVersion, Engine: name, ID: c.ID, Name: containerName,
				Link: c.Labels[linkLabel]},
			Labels: own(c.Labels), Status: status(c.State), CreatedAt: time.Unix(c.Created, 0).UTC(),
		})
	}
	// What keeps the files of a container counts as one only when that is gone.
	names := map[string]bool{}
	for _, s := range out {
		names[s.Handle.Name] = true
	}
	out = slices.DeleteFunc(out, func(s engine.Summary) bool { return names[s.Labels[filesLabel]] })
	slices.SortFunc(out, func(a, b engine.Summary) int {
		return a.CreatedAt.Compare(b.CreatedAt)
	})
	return out, nil
}

// dropGone drops from the register what something else removed. found are some of the containers that are there.
func (e *Engine) dropGone(ctx context.Context, found []container.Summary) error {
	if e.register.dir == "" {
		return nil
	}
	daemon, err := e.daemon(ctx)
	if err != nil {
		return wrap("list containers", err)
	}
	ids, err := e.register.noteds(daemon.ID)
	for _, id := range ids {
		if err != nil || slices.ContainsFunc(found, func(c container.Summary) bool { return c.ID == id }) {
			continue
		}
		if _, missing := e.api.ContainerInspect(ctx, id); errdefs.IsNotFound(missing) {
			err = e.register.forget(id)
		}
	}
	return err
}

// Inspect implements engine.Engine.
func (e *Engine) Inspect(ctx context.Context, h engine.Handle) (engine.State, error) {
	found, err := e.inspect(ctx, h)
	if err != nil {
		return engine.State{}, wrap("inspect container "+h.Name, err)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	daemon, err := e.daemon(ctx)
	if err != nil {
		return engine.State{}, wrap("ask the Docker engine about itself", err)
	}
	return engine.State{
		Handle: h, Status: status(found.State.Status), Exit: exitOf(found.State),
		ImageID: cmp.Or(found.Config.Labels[imageLabel], found.Image),
		Runtime: found.HostConfig.Runtime, Labels: own(found.Config.Labels), Isolation: isolation(found, daemon),
	}, nil
}

func (e *Engine) inspect(ctx context.Context, h engine.Handle) (container.InspectResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return e.api.ContainerInspect(ctx, h.ID)
}

// Logs implements engine.Engine. The container's log driver keeps 10 MB.
func (e *Engine) Logs(ctx context.Context, h engine.Handle, limit int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	limit = max(limit, 0)
	// The daemon counts in records, of which each holds at least one byte.
	options := container.LogsOptions{ShowStdout: true, ShowStderr: true, Tail: strconv.FormatInt(limit, 10)}
	stream, err := e.api.ContainerLogs(ctx, h.ID, options)
	if err != nil {
		return nil, wrap("read logs of container "+h.Name, err)
	}
	defer stream.Close()
	tail := engine.NewTail(limit)
	if _, err := stdcopy.StdCopy(tail, tail, stream); err != nil {
		return nil, wrap("read logs of container "+h.Name, err)
	}
	return tail.Bytes(), nil
}

// status maps the daemon's words. A container between states still has to be
// removed, so it counts as exited.
func status(state container.ContainerState) engine.Status {
	switch state {
	case container.StateCreated:
		return engine.StatusCreated
	case container.StateRunning, container.StateRestarting:
		return engine.StatusRunning
	case container.StatePaused:
		return engine.StatusPaused
	}
	return engine.StatusExited
}

// own removes the label that is internal to this package.
func own(labels map[string]string) map[string]string {
	delete(labels, createLabel)
	return labels
}
