package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"
	"k8s.io/streaming/pkg/httpstream"

	"holon/internal/visible"
	"holon/runner/engine"
)

// Exec implements engine.Linker.
func (e *Engine) Exec(ctx context.Context, h engine.Handle, user engine.User, command []string) (io.ReadWriteCloser,
	error) {
	pod, err := e.find(ctx, h)
	if err != nil {
		return nil, err
	}
	if exitOf(pod, time.Now()) != nil {
		return nil, &engine.Error{Code: engine.CodeNotFound, Message: "the program of Pod " + h.Name + " has ended"}
	}
	own, separates := beginsAs(pod)
	if user != own && !separates {
		return nil, invalid("user", "use the container's", "no command of Pod %s can be user %s", h.Name, user)
	}
	if user != own {
		command = append([]string{podAgentd, "pod", "as", user.String()}, command...)
	}
	return e.exec(context.WithoutCancel(ctx), pod, agentName, command) // the stream is used after the call
}

// beginsAs is the user of the container agent, and whether its processes can become another one.
func beginsAs(pod *corev1.Pod) (user engine.User, separates bool) {
	for _, c := range pod.Spec.Containers {
		if c.Name != agentName || c.SecurityContext == nil {
			continue
		}
		user = engine.User{UID: int(deref(c.SecurityContext.RunAsUser)), GID: int(deref(c.SecurityContext.RunAsGroup))}
		_, _, separates = separation(c)
	}
	return user, separates
}

// run runs a step of "agentd pod" in the container files, to its end. One that fails is a utilexec.CodeExitError in the
// chain.
func (e *Engine) run(ctx context.Context, pod *corev1.Pod, step ...string) error {
	stream, err := e.files(ctx, pod, step...)
	if err != nil {
		return err
	}
	defer stream.Close()
	_, err = io.Copy(io.Discard, stream)
	return err
}

func (e *Engine) files(ctx context.Context, pod *corev1.Pod, step ...string) (io.ReadWriteCloser, error) {
	return e.exec(ctx, pod, filesName, append([]string{AgentdPath, "pod"}, step...))
}

// maxComplaint bounds what is kept of standard error.
const maxComplaint = 4 << 10

// exec runs a command in a container. Its error, and what it printed to standard error, are that of a Read.
func (e *Engine) exec(ctx context.Context, pod *corev1.Pod, container string, command []string) (io.ReadWriteCloser,
	error) {
	to := e.core.Get().Namespace(pod.Namespace).Resource("pods").Name(pod.Name).SubResource("exec").
		VersionedParams(&corev1.PodExecOptions{Container: container, Command: command, Stdin: true, Stdout: true,
			Stderr: true}, e.codecs)
	// The protocol of 1.30 and later, which tells an end of standard input.
	executor, err := remotecommand.NewWebSocketExecutor(e.config, "GET", to.URL().String())
	if err != nil {
		return nil, wrap("reach Pod "+pod.Name, err)
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &execStream{cancel: cancel, ended: make(chan struct{})}
	stdin, in := io.Pipe()
	out, stdout := io.Pipe()
	s.PipeReader, s.in = out, in
	go func() {
		defer close(s.ended)
		stderr := &tail{kept: engine.NewTail(maxComplaint)}
		err := executor.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: stdin, Stdout: stdout, Stderr: stderr})
		err = execError(pod.Name, err, stderr.text())
		stdin.CloseWithError(errors.Join(io.ErrClosedPipe, err))
		stdout.CloseWithError(err)
	}()
	return s, nil
}

// execError is the end of a command. A connection that breaks is CodeUnreachable.
func execError(podName string, err error, stderr string) error {
	if refused, ok := errors.AsType[*httpstream.UpgradeFailureError](err); ok {
		err = refused.Cause
	}
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if stderr != "" {
		err = fmt.Errorf("%w: %s", err, visible.OneLine(stderr, 500))
	}
	out := &engine.Error{Code: engine.CodeUnreachable, Message: "cannot run a command in Pod " + podName, Err: tidied{err}}
	var status apierrors.APIStatus
	code, ended := errors.AsType[utilexec.CodeExitError](err)
	switch {
	case ended:
		out.Code = engine.CodeFailed
		out.Message = fmt.Sprintf("a command in Pod %s ended with exit code %d", podName, code.Code)
	case strings.Contains(err.Error(), "container not found"), strings.Contains(err.Error(), "not running"):
		out.Code = engine.CodeNotFound
	case errors.As(err, &status):
		return wrap("run a command in Pod "+podName, err)
	}
	return out
}

// execStream is standard input and output of a command in a container.
type execStream struct {
	*io.PipeReader
	in     *io.PipeWriter
	cancel context.CancelFunc
	ended  chan struct{}
	once   sync.Once
}

func (s *execStream) Write(p []byte) (int, error) { return s.in.Write(p) }

// Close ends the connection, and waits for its end.
func (s *execStream) Close() error {
	s.once.Do(func() {
		s.cancel()
		_, _ = s.in.Close(), s.PipeReader.Close()
		<-s.ended
	})
	return nil
}

// tail keeps the end of what is written, by a goroutine that may outlive the command.
type tail struct {
	mu   sync.Mutex
	kept *engine.Tail
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.kept.Write(p)
}

func (t *tail) text() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.kept.Bytes()))
}
