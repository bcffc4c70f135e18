package docker

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/client"

	"holon/runner/engine"
)

// Start implements engine.Engine.
func (e *Engine) Start(ctx context.Context, h engine.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	// The daemon starts an exited container again; ours run once, and only the
	// inspection (0.5 ms) can tell.
	found, err := e.api.ContainerInspect(ctx, h.ID)
	if err == nil && found.State.Status != container.StateCreated {
		return &engine.Error{Code: engine.CodeConflict, Message: "container " + h.Name + " was started before",
			Hint: "create a new one"}
	}
	if err == nil {
		err = e.api.ContainerStart(ctx, h.ID, container.StartOptions{})
	}
	return wrap("start container "+h.Name, err)
}

const (
	reattachPause = 200 * time.Millisecond
	reattachTries = 50 // ten seconds of a daemon being restarted
)

// Wait implements engine.Engine. It survives a restart of the daemon.
func (e *Engine) Wait(ctx context.Context, h engine.Handle) (engine.Exit, error) {
	for try := 0; ; try++ {
		exit, err := e.waitOnce(ctx, h)
		lost := err != nil && ctx.Err() == nil && (client.IsErrConnectionFailed(err) || isTruncated(err))
		if !lost || try == reattachTries {
			return exit, wrap("wait for container "+h.Name, err)
		}
		select {
		case <-ctx.Done():
			return engine.Exit{}, wrap("wait for container "+h.Name, ctx.Err())
		case <-time.After(reattachPause):
		}
	}
}

// waitOnce registers for the next exit first and then looks whether there was
// one before, so that no order of Start, exit and Wait is missed.
func (e *Engine) waitOnce(ctx context.Context, h engine.Handle) (engine.Exit, error) {
	waiting, cancel := context.WithCancel(ctx)
	defer cancel()
	// ContainerWait returns when the daemon has registered it.
	exited, failed := e.api.ContainerWait(waiting, h.ID, container.WaitConditionNextExit)
	if exit, err := e.ended(ctx, h); err != nil || exit != nil {
		// The client's goroutine sends exactly once, and ends only when it is heard.
		cancel()
		select {
		case <-exited:
		case <-failed:
		}
		return deref(exit), err
	}
	select {
	case <-exited:
		// The answer lacks the reason of the exit, and has code 0 for a container
		// that was removed without having run: only the inspection counts.
		exit, err := e.ended(ctx, h)
		if err == nil && exit == nil {
			err = errors.New("the engine reported an exit that its state does not show")
		}
		return deref(exit), err
	case err := <-failed:
		return engine.Exit{}, err
	}
}

// ended returns the exit of h, or nil if it has not ended.
func (e *Engine) ended(ctx context.Context, h engine.Handle) (*engine.Exit, error) {
	found, err := e.inspect(ctx, h)
	if err != nil {
		return nil, err
	}
	if found.State.Status == container.StateRemoving && strings.HasPrefix(found.State.FinishedAt, "0001-") {
		return nil, &engine.Error{Code: engine.CodeNotFound, Message: "container " + h.Name + " is being removed"}
	}
	return exitOf(found.State), nil
}

// exitOf reads how a container ended; one that is being removed has ended too.
func exitOf(state *container.State) *engine.Exit {
	switch state.Status {
	case container.StateExited, container.StateDead, container.StateRemoving:
		return &engine.Exit{Code: state.ExitCode, OOMKilled: state.OOMKilled, Error: state.Error}
	}
	return nil
}

func deref(exit *engine.Exit) engine.Exit {
	if exit == nil {
		return engine.Exit{}
	}
	return *exit
}

// Stop implements engine.Engine. The grace has a precision of one second,
// rounded up.
func (e *Engine) Stop(ctx context.Context, h engine.Handle, grace time.Duration) error {
	grace = max(grace, 0)
	ctx, cancel := context.WithTimeout(ctx, grace+callTimeout)
	defer cancel()
	seconds := int((grace + time.Second - 1) / time.Second)
	err := e.api.ContainerStop(ctx, h.ID, container.StopOptions{Timeout: &seconds})
	if err == nil || errdefs.IsNotFound(err) || errdefs.IsNotModified(err) {
		return nil
	}
	return wrap("stop container "+h.Name, err)
}

// Remove implements engine.Engine.
func (e *Engine) Remove(ctx context.Context, h engine.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if h.Link != engine.LinkStream {
		return e.remove(ctx, h.ID, h.Name)
	}
	second, err := e.second(ctx, h.Name)
	if err != nil {
		return err
	}
	if second != "" { // the volumes go with it
		return errors.Join(e.remove(ctx, h.ID, h.Name), e.remove(ctx, second, h.Name+filesSuffix))
	}
	// Somebody removed it who did not know what it is for.
	var volumes []string
	if found, err := e.api.ContainerInspect(ctx, h.ID); err == nil {
		for _, m := range found.Mounts {
			volumes = append(volumes, m.Name)
		}
	}
	errs := []error{e.remove(ctx, h.ID, h.Name)}
	for _, name := range volumes {
		if err := e.api.VolumeRemove(ctx, name, false); err != nil && !errdefs.IsNotFound(err) {
			errs = append(errs, wrap("remove a volume of container "+h.Name, err))
		}
	}
	return errors.Join(errs...)
}

// second is the ID of the second container of one, "" if it is gone.
func (e *Engine) second(ctx context.Context, containerName string) (string, error) {
	found, err := e.api.ContainerInspect(ctx, containerName+filesSuffix)
	switch {
	case errdefs.IsNotFound(err):
		return "", nil
	case err != nil:
		return "", wrap("remove the files of container "+containerName, err)
	case found.Config.Labels[filesLabel] != containerName,
		!e.register.knows(found.Config.Labels[createLabel], found.ID):
		return "", nil
	}
	return found.ID, nil
}

func (e *Engine) remove(ctx context.Context, id, containerName string) error {
	for {
		err := e.api.ContainerRemove(ctx, id, container.RemoveOptions{Force: true, RemoveVolumes: true})
		switch {
		case err == nil:
			nonce, _ := e.unnoted.LoadAndDelete(id)
			return errors.Join(e.register.forget(id), e.register.forgetNonce(nonce))
		case errdefs.IsNotFound(err): // or it is still being made, by another
			return e.register.forget(id)
		case errdefs.IsConflict(err) && mentions(err, "already in progress"):
			// Somebody else removes it: success is when it is gone.
		default:
			return wrap("remove container "+containerName, err)
		}
		select {
		case <-ctx.Done():
			return wrap("remove container "+containerName, errors.Join(ctx.Err(), err))
		case <-time.After(20 * time.Millisecond):
		}
	}
}
