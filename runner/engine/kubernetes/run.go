package kubernetes

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	utilexec "k8s.io/client-go/util/exec"

	"holon/runner/engine"
	"holon/state"
)

// Exit codes of "agentd pod start".
const (
	codeStarted   = 10
	codeCannotRun = 11
)

// Start implements engine.Engine. It records the start in the Pod first: a Pod that has the record may have run.
func (e *Engine) Start(ctx context.Context, h engine.Handle) error {
	pod, err := e.find(ctx, h)
	if err != nil {
		return err
	}
	started := &engine.Error{Code: engine.CodeConflict, Message: "Pod " + h.Name + " was started before",
		Hint: "create a new one"}
	if status(pod, time.Now()) != engine.StatusCreated {
		return started
	}
	err = e.note(ctx, h, startedKey)
	if err == nil {
		ctx, cancel := context.WithTimeout(ctx, callTimeout)
		defer cancel()
		err = e.run(ctx, pod, "start", volumePath)
	}
	if code, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		switch code.Code {
		case codeStarted:
			return started
		case codeCannotRun:
			return &engine.Error{Code: engine.CodeCannotRun, Param: "args", Err: errors.Unwrap(err),
				Message: "cannot start Pod " + h.Name,
				Hint:    "the program must be in the image or a mount, executable, and built for the cluster's machines"}
		}
	}
	return wrap("start Pod "+h.Name, err)
}

// Stop implements engine.Engine. agentd in the Pod keeps the grace, also when this process ends meanwhile.
func (e *Engine) Stop(ctx context.Context, h engine.Handle, grace time.Duration) error {
	grace = max(grace, 0)
	ctx, cancel := context.WithTimeout(ctx, grace+awayTime)
	defer cancel()
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		pod, err := e.find(ctx, h)
		if gone(err) || err == nil && status(pod, time.Now()) != engine.StatusRunning {
			return nil
		}
		if err == nil {
			err = e.run(ctx, pod, "stop", grace.String())
		}
		if err == nil {
			break
		}
		if !state.IsCode(err, engine.CodeUnreachable) || !sleep(ctx, pause) {
			return wrap("stop Pod "+h.Name, err)
		}
	}
	err := e.follow(ctx, h, awayTime, func(pod *corev1.Pod) (bool, error) { return exitOf(pod, time.Now()) != nil, nil })
	if gone(err) || errors.Is(err, errDeleted) {
		return nil
	}
	return wrap("stop Pod "+h.Name, err)
}

// Wait implements engine.Engine. It goes on while the API server is away.
func (e *Engine) Wait(ctx context.Context, h engine.Handle) (engine.Exit, error) {
	var exit *engine.Exit
	err := e.follow(ctx, h, 0, func(pod *corev1.Pod) (bool, error) {
		exit = exitOf(pod, time.Now())
		return exit != nil, nil
	})
	if errors.Is(err, errDeleted) {
		return engine.Exit{Code: -1, Error: "the Pod was deleted"}, nil
	}
	return deref(exit), wrap("wait for Pod "+h.Name, err)
}

const (
	firstPause = 100 * time.Millisecond
	mostPause  = 5 * time.Second
	// watchTime is how long one watch lasts. What follows from time alone is seen after it.
	watchTime = 30 * time.Second
)

// errDeleted says that a Pod was deleted while it was followed.
var errDeleted = errors.New("the Pod was deleted")

// follow calls decide with a Pod, now and with each change, until it is done. While the API server is away it tries
// again, for at most patience; 0 is without an end.
func (e *Engine) follow(ctx context.Context, h engine.Handle, patience time.Duration,
	decide func(*corev1.Pod) (done bool, err error)) error {
	var away time.Time // since when
	for pause := firstPause; ; pause = min(2*pause, mostPause) {
		pod, err := e.find(ctx, h)
		var done bool
		if err == nil {
			pause, away = firstPause, time.Time{}
			if done, err = decide(pod); err == nil && !done {
				done, err = e.watch(ctx, h, pod, decide)
			}
		}
		switch {
		case done || err != nil && !state.IsCode(err, engine.CodeUnreachable):
			return err
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err == nil:
			continue
		case away.IsZero():
			away = time.Now()
		case patience > 0 && time.Since(away) > patience:
			return err
		}
		sleep(ctx, pause)
	}
}

// sleep waits, and reports whether ctx goes on.
func sleep(ctx context.Context, pause time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(pause):
		return true
	}
}

// watch calls decide with each change after that of pod, until it is done or the watch ends, without an error.
func (e *Engine) watch(ctx context.Context, h engine.Handle, pod *corev1.Pod,
	decide func(*corev1.Pod) (done bool, err error)) (bool, error) {
	changes, err := e.pods(h).VersionedParams(&metav1.ListOptions{Watch: true, ResourceVersion: pod.ResourceVersion,
		FieldSelector: "metadata.name=" + h.Name, TimeoutSeconds: new(int64(watchTime / time.Second))}, e.codecs).Watch(ctx)
	if apierrors.IsGone(err) || apierrors.IsResourceExpired(err) {
		return false, nil // it is read anew
	}
	if err != nil {
		return false, wrap("watch Pod "+h.Name, err)
	}
	defer func() { // nothing of it outlives the call
		changes.Stop()
		for range changes.ResultChan() {
		}
	}()
	for change := range changes.ResultChan() {
		now, ok := change.Object.(*corev1.Pod)
		if !ok || change.Type == watch.Error {
			break
		}
		if now.UID != pod.UID {
			return true, errDeleted
		}
		if done, err := decide(now); done || err != nil {
			return done, err
		}
		if change.Type == watch.Deleted {
			return true, errDeleted
		}
	}
	return false, nil
}
