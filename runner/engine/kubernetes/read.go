package kubernetes

import (
	"context"
	"io"
	"slices"
	"time"

	"github.com/distribution/reference"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"holon/runner/engine"
)

// List implements engine.Engine.
func (e *Engine) List(ctx context.Context, labels map[string]string) ([]engine.Summary, error) {
	return e.list(ctx, labels, false)
}

// Others implements engine.Sharer.
func (e *Engine) Others(ctx context.Context, labels map[string]string) ([]engine.Summary, error) {
	return e.list(ctx, labels, true)
}

func (e *Engine) list(ctx context.Context, labels map[string]string, others bool) ([]engine.Summary, error) {
	if err := engine.CheckLabels(labels); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var found corev1.PodList
	err := e.core.Get().Namespace(e.namespace).Resource("pods").
		VersionedParams(&metav1.ListOptions{LabelSelector: e.selector(labels, others)}, e.codecs).Do(ctx).Into(&found)
	if err != nil {
		return nil, wrap("list Pods", err)
	}
	out := []engine.Summary{}
	for i := range found.Items {
		pod := &found.Items[i]
		if has(pod, labels) {
			out = append(out, engine.Summary{Handle: e.handle(pod), Labels: specLabels(pod), Status: status(pod, time.Now()),
				CreatedAt: pod.CreationTimestamp.UTC()})
		}
	}
	slices.SortFunc(out, func(a, b engine.Summary) int { return a.CreatedAt.Compare(b.CreatedAt) })
	return out, nil
}

// Inspect implements engine.Engine. A Pod that does not have its files yet, or whose files are lost, is CodeNotFound:
// what it has must never be taken for what a program left.
func (e *Engine) Inspect(ctx context.Context, h engine.Handle) (engine.State, error) {
	pod, err := e.find(ctx, h)
	if err != nil {
		return engine.State{}, err
	}
	now := time.Now()
	switch {
	case pod.Annotations[madeKey] == "":
		return engine.State{}, &engine.Error{Code: engine.CodeNotFound, Message: "Pod " + h.Name + " was not made whole"}
	case lost(pod, now):
		return engine.State{}, lostError(pod)
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	policies, err := e.policies(ctx, pod.Namespace)
	if err != nil {
		return engine.State{}, err
	}
	s := engine.State{Handle: h, Status: status(pod, now), Exit: exitOf(pod, now), Labels: specLabels(pod),
		Runtime: deref(pod.Spec.RuntimeClassName), Isolation: isolation(pod, policies)}
	if agent := statusOf(pod, agentName); agent != nil {
		s.ImageID = agent.ImageID
	}
	return s, nil
}

// Logs implements engine.Engine. The cluster keeps what its nodes are set to keep, by default 10 MB.
func (e *Engine) Logs(ctx context.Context, h engine.Handle, limit int64) ([]byte, error) {
	pod, err := e.find(ctx, h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	limit = max(limit, 0)
	// The cluster counts lines, of which each holds at least one byte.
	stream, err := e.pods(h).Name(h.Name).SubResource("log").VersionedParams(&corev1.PodLogOptions{Container: agentName,
		TailLines: &limit}, e.codecs).Stream(ctx)
	if apierrors.IsBadRequest(err) && statusOf(pod, agentName) == nil { // it did not run yet
		return nil, nil
	}
	if err != nil {
		return nil, wrap("read the log of Pod "+h.Name, err)
	}
	defer stream.Close()
	tail := engine.NewTail(limit)
	if _, err := io.Copy(tail, stream); err != nil {
		return nil, wrap("read the log of Pod "+h.Name, err)
	}
	return tail.Bytes(), nil
}

// CheckImage implements engine.Imager. Whether the cluster can pull an image shows when it does.
func (e *Engine) CheckImage(_ context.Context, image string) error {
	if _, err := reference.ParseNormalizedNamed(image); err != nil {
		return invalid("image", "name an image like holon/base:latest", "%.200q does not name an image", image)
	}
	return nil
}

// Ports implements engine.Imager. It is CodeInvalidSpec: ports are of services, which this engine does not run.
func (e *Engine) Ports(context.Context, string) ([]int, error) { return nil, noServices() }
