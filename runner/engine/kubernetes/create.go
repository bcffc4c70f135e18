package kubernetes

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"holon/runner/engine"
	"holon/state"
)

const (
	// runTimeout bounds how long a Pod may take until its containers run: a node may have to be made, and images pulled.
	runTimeout = 5 * time.Minute
	// awayTime is how long Create and Stop wait for an API server that does not answer.
	awayTime = 90 * time.Second
	// pullTime is how long a node may fail to pull an image, which it tries again, before that is final.
	pullTime = 45 * time.Second
	// settleTimeout is how long a cancelled Create waits for the answer, without which it cannot know what to clean up.
	settleTimeout = 10 * time.Second
	// endTime is how long a node may take to end a program that is removed.
	endTime = 15 * time.Second
)

// Create implements engine.Engine. It waits until the cluster runs the Pod.
func (e *Engine) Create(ctx context.Context, spec engine.Spec) (engine.Handle, error) {
	spec, err := e.prepare(ctx, spec)
	if err != nil {
		return engine.Handle{}, err
	}
	nonce := rand.Text()
	pod, err := e.render(spec, nonce)
	if err != nil {
		return engine.Handle{}, err
	}
	made, err := e.post(ctx, pod)
	if err == nil {
		h := e.handle(made)
		if err = e.awaitRunning(ctx, h); err == nil {
			err = e.send(ctx, h, spec)
		}
		if err == nil {
			err = e.note(ctx, h, madeKey)
		}
		if err == nil {
			return h, nil
		}
	}
	if made == nil || made.UID == "" {
		made = e.recognize(ctx, pod.Name, nonce, err)
	}
	if made != nil { // cleaning up outlives the request that is being undone
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
		defer cancel()
		err = errors.Join(err, e.Remove(after, e.handle(made)))
	}
	if ctx.Err() != nil {
		return engine.Handle{}, fmt.Errorf("create Pod %s: %w", pod.Name, context.Cause(ctx))
	}
	return engine.Handle{}, wrap("create Pod "+pod.Name, err)
}

// prepare checks a spec and completes it, and makes what its Pod needs.
func (e *Engine) prepare(ctx context.Context, spec engine.Spec) (engine.Spec, error) {
	spec, err := spec.Complete()
	if err == nil {
		err = e.suits(spec)
	}
	if err == nil && spec.Service == nil {
		err = e.CheckImage(ctx, spec.Image)
	}
	if err != nil {
		return spec, err
	}
	if spec.NanoCPUs == 0 {
		spec.NanoCPUs = engine.DefaultNanoCPUs
	}
	spec.Memory, spec.NanoCPUs = spec.Portion.Take(spec.Memory), spec.Portion.Take(spec.NanoCPUs)
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	if !e.allowed.Load() {
		if err := e.checkRights(ctx); err != nil {
			return spec, err
		}
	}
	return spec, e.ensurePolicy(ctx)
}

// post makes the Pod. The cluster goes on making it when its client hangs up, so the call is not cut off at once when
// ctx ends: its answer says what there is to remove.
func (e *Engine) post(ctx context.Context, pod *corev1.Pod) (*corev1.Pod, error) {
	call, cancel := context.WithTimeout(context.WithoutCancel(ctx), callTimeout)
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		select {
		case <-call.Done():
		case <-time.After(settleTimeout):
			cancel()
		}
	})
	defer stop()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	made := &corev1.Pod{}
	err := e.core.Post().Namespace(e.namespace).Resource("pods").Body(pod).Do(call).Into(made)
	if err == nil {
		err = ctx.Err()
	}
	return made, err
}

// recognize returns the Pod of a call whose answer was lost, nil if there is none, or the cluster does not say.
func (e *Engine) recognize(ctx context.Context, podName, nonce string, cause error) *corev1.Pod {
	var status apierrors.APIStatus
	if errors.As(cause, &status) && !isAway(cause) {
		return nil // the cluster refused it
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	found := &corev1.Pod{}
	err := e.core.Get().Namespace(e.namespace).Resource("pods").Name(podName).Do(ctx).Into(found)
	if err != nil || found.Annotations[createKey] != nonce {
		return nil
	}
	return found
}

// awaitRunning waits until both containers run.
func (e *Engine) awaitRunning(ctx context.Context, h engine.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, runTimeout)
	defer cancel()
	var last *corev1.Pod
	var failing time.Time // since when an image cannot be pulled
	err := e.follow(ctx, h, awayTime, func(pod *corev1.Pod) (running bool, err error) {
		last = pod
		running, err = judge(pod)
		if !mayPullYet(err) {
			return running, err
		}
		if failing.IsZero() {
			failing = time.Now()
		}
		if time.Since(failing) < pullTime {
			return false, nil
		}
		return false, err
	})
	if errors.Is(err, context.DeadlineExceeded) && last != nil {
		return stuck(last)
	}
	return err
}

// judge says whether both containers of a new Pod run, or why they never will.
func judge(pod *corev1.Pod) (running bool, err error) {
	for _, s := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil {
			if err := waiting(pod, s.Name, s.Image, w); err != nil {
				return false, err
			}
		}
	}
	if exit := exitOf(pod, time.Now()); exit != nil {
		return false, failed("Pod "+pod.Name+" ended before it was ready", podReason(pod), exit.Error)
	}
	for _, s := range pod.Status.InitContainerStatuses {
		if t := s.State.Terminated; t != nil && t.ExitCode != 0 {
			return false, failed(fmt.Sprintf("Pod %s cannot take files: its init container ended with exit code %d",
				pod.Name, t.ExitCode), t.Reason, t.Message)
		}
	}
	return isRunning(pod, filesName) && isRunning(pod, agentName), nil
}

// waiting returns an error if what a container waits for is not to come.
func waiting(pod *corev1.Pod, container, image string, w *corev1.ContainerStateWaiting) error {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		if c.Name == container {
			image = c.Image
		}
	}
	switch w.Reason {
	case "ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "RegistryUnavailable":
		e := &engine.Error{Code: engine.CodeImageNotFound, Param: "image", Err: reason(w.Reason + ": " + w.Message),
			Message: fmt.Sprintf("the cluster cannot pull the image %.200s", image),
			Hint: "push it to where the cluster pulls from, name another with --image, or set imagePullSecrets in the " +
				"template"}
		if container != agentName {
			e.Param = "kubernetes_agentd_image"
			e.Hint = "set HOLON_KUBERNETES_AGENTD_IMAGE to an image that the cluster can pull"
		}
		return e
	case "InvalidImageName":
		return invalid("image", "name an image like holon/base:latest", "%.200q does not name an image", image)
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return failed("the cluster cannot run container "+container+" of Pod "+pod.Name, w.Reason, w.Message)
	}
	return nil
}

// mayPullYet reports whether err is that an image cannot be pulled, and neither its registry nor the Pod's own policy
// is the reason.
func mayPullYet(err error) bool {
	if !state.IsCode(err, engine.CodeImageNotFound) {
		return false
	}
	text := strings.ToLower(errors.Unwrap(err).Error())
	return !slices.ContainsFunc([]string{"not found", "denied", "unauthorized", "forbidden", "errimageneverpull"},
		func(word string) bool { return strings.Contains(text, word) })
}

// stuck says why a Pod does not run in time.
func stuck(pod *corev1.Pod) error {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return &engine.Error{Code: engine.CodeResourceLimit, Param: "memory", Err: reason(c.Message),
				Message: "no node of the cluster takes Pod " + pod.Name,
				Hint: "ask for less with --memory and --cpus, add a node, or correct nodeSelector and tolerations of the " +
					"template"}
		}
	}
	return failed(fmt.Sprintf("Pod %s does not run after %v", pod.Name, runTimeout), string(pod.Status.Phase), "")
}

func failed(message, why, detail string) *engine.Error {
	return &engine.Error{Code: engine.CodeFailed, Message: message, Err: reason(why + ": " + detail),
		Hint: "look at the events of the Pod, with: kubectl get events"}
}

// reason is what the cluster says.
func reason(text string) error { return tidied{errors.New(text)} }

// Remove implements engine.Engine. Deleted without a grace, a Pod is gone for the cluster while its node still ends it:
// the program is ended before, unless the node does not answer.
func (e *Engine) Remove(ctx context.Context, h engine.Handle) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	pod, err := e.find(ctx, h)
	if gone(err) {
		return nil
	}
	if err != nil {
		return err
	}
	if status(pod, time.Now()) == engine.StatusRunning && !silent(pod) {
		ending, cancel := context.WithTimeout(ctx, endTime)
		_ = e.run(ending, pod, "stop", "0s") // what it cannot end ends with the Pod
		cancel()
	}
	options := &metav1.DeleteOptions{GracePeriodSeconds: new(int64),
		Preconditions: metav1.NewUIDPreconditions(string(pod.UID))}
	options.PropagationPolicy = new(metav1.DeletePropagationBackground)
	err = e.core.Delete().Namespace(namespaceOf(h)).Resource("pods").Name(h.Name).Body(options).Do(ctx).Error()
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) { // another Pod may have the name by now
		return nil
	}
	if err != nil {
		return wrap("remove Pod "+h.Name, err)
	}
	err = e.follow(ctx, h, callTimeout, func(*corev1.Pod) (bool, error) { return false, nil })
	if gone(err) || errors.Is(err, errDeleted) {
		return nil
	}
	return wrap("remove Pod "+h.Name, err)
}

// note records in an annotation of a Pod that something has happened to it.
func (e *Engine) note(ctx context.Context, h engine.Handle, key string) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	uid, err := e.uidOf(h)
	if err != nil {
		return err
	}
	patch := fmt.Sprintf(`[{"op":"test","path":"/metadata/uid","value":%q},`+
		`{"op":"add","path":"/metadata/annotations/%s","value":%q}]`, uid, key, time.Now().UTC().Format(time.RFC3339))
	err = e.core.Patch(types.JSONPatchType).Namespace(namespaceOf(h)).Resource("pods").Name(h.Name).
		Body([]byte(patch)).Do(ctx).Error()
	if apierrors.IsInvalid(err) { // another Pod has the name
		return notFound(h)
	}
	return wrap("change Pod "+h.Name, err)
}
