package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"holon/internal/bridge"
	"holon/internal/visible"
	"holon/runner/engine"
	"holon/state"
)

// relinkPause is between two tries to make a broken link anew.
const relinkPause = 200 * time.Millisecond

// Link implements engine.Linker, by an exec of the bridge in the container.
func (e *Engine) Link(ctx context.Context, h engine.Handle, spec engine.Spec) (io.Closer, error) {
	side := bridge.Side{Listen: map[string]string{}, Dial: map[string]string{}}
	command := slices.Clone(spec.Sockets.Bridge)
	for _, inside := range spec.Sockets.Host {
		side.Dial[inside], _ = engine.HostPath(spec.Mounts, inside)
		command = append(command, "--listen", inside)
	}
	for _, inside := range spec.Sockets.Program {
		side.Listen[inside], _ = engine.HostPath(spec.Mounts, inside)
		command = append(command, "--dial", inside)
	}
	user := spec.User
	if spec.Server != nil {
		user = spec.Server
	}
	options := container.ExecOptions{User: user.String(), Cmd: command, AttachStdin: true, AttachStdout: true,
		AttachStderr: true}
	stream, err := e.exec(ctx, h, options)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &link{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for stream != nil {
			_ = side.Run(ctx, stream, true) // it says that it ended
			stream = e.again(ctx, h, options)
		}
	}()
	return l, nil
}

type link struct {
	cancel context.CancelFunc
	ended  chan struct{}
}

// Close ends the link and the bridge in the container, and waits for its own side.
func (l *link) Close() error {
	l.cancel()
	<-l.ended
	return nil
}

// again makes a link anew. nil: there is no program any more, or ctx ended.
func (e *Engine) again(ctx context.Context, h engine.Handle, options container.ExecOptions) *execStream {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(relinkPause):
		}
		exit, err := e.ended(ctx, h)
		if exit != nil || state.IsCode(wrap("look at container "+h.Name, err), engine.CodeNotFound) {
			return nil
		}
		if stream, err := e.exec(ctx, h, options); err == nil {
			return stream
		}
	}
}

// maxPrinted bounds what is read of a command's output.
const maxPrinted = 1 << 10

// Usage implements engine.Linker. Root has capabilities in a container with a server, and no command of another user
// can signal what it runs.
func (e *Engine) Usage(ctx context.Context, h engine.Handle, spec engine.Spec, command []string) (int64, error) {
	options := container.ExecOptions{User: spec.User.String(), Cmd: slices.Clone(command), AttachStdin: true,
		AttachStdout: true, AttachStderr: true}
	if spec.Server != nil {
		options.User = "0:0"
	}
	for _, m := range written(spec) {
		options.Cmd = append(options.Cmd, m.Target)
	}
	stream, err := e.exec(ctx, h, options)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	printed, err := io.ReadAll(io.LimitReader(stream, maxPrinted))
	if ctx.Err() != nil {
		return 0, fmt.Errorf("measure container %s: %w", h.Name, context.Cause(ctx))
	}
	var bytes int64
	if err == nil {
		bytes, err = strconv.ParseInt(strings.TrimSpace(string(printed)), 10, 64)
	}
	if err != nil {
		return 0, &engine.Error{Code: engine.CodeFailed, Message: "cannot measure container " + h.Name, Err: err}
	}
	return bytes, nil
}

// exec starts a command in a container.
func (e *Engine) exec(ctx context.Context, h engine.Handle, options container.ExecOptions) (*execStream, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	made, err := e.api.ContainerExecCreate(ctx, h.ID, options)
	if err != nil {
		return nil, wrap("reach container "+h.Name, err)
	}
	attached, err := e.api.ContainerExecAttach(ctx, made.ID, container.ExecAttachOptions{})
	if err != nil {
		return nil, wrap("reach container "+h.Name, err)
	}
	out, in := io.Pipe()
	s := &execStream{Reader: out, Conn: attached.Conn, attached: attached}
	go func() {
		stderr := engine.NewTail(4 << 10)
		_, err := stdcopy.StdCopy(in, stderr, attached.Reader)
		if text := strings.TrimSpace(string(stderr.Bytes())); text != "" {
			err = errors.Join(fmt.Errorf("in the container: %s", visible.OneLine(text, 500)), err)
		}
		in.CloseWithError(err)
	}()
	return s, nil
}

// execStream is standard input and output of a command in a container.
type execStream struct {
	io.Reader
	net.Conn // for writing
	attached types.HijackedResponse
	once     sync.Once
}

func (s *execStream) Read(p []byte) (int, error) { return s.Reader.Read(p) }

func (s *execStream) Close() error {
	s.once.Do(func() {
		s.attached.Close()
		_ = s.Reader.(*io.PipeReader).Close()
	})
	return nil
}
