package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"

	"github.com/docker/docker/api/types"
	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/pkg/stdcopy"

	"holon/internal/visible"
	"holon/runner/engine"
)

// Exec implements engine.Linker.
func (e *Engine) Exec(ctx context.Context, h engine.Handle, user engine.User, command []string) (io.ReadWriteCloser,
	error) {
	options := container.ExecOptions{User: user.String(), Cmd: command, AttachStdin: true, AttachStdout: true,
		AttachStderr: true}
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
