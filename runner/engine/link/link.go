// Package link reaches programs of engines that share no directory with this process, by commands next to them
// (engine.Linker).
//
//	Join   sockets of host and program, by a command that stays (package bridge)
//	Files  directories of both that change, by a command that stays (package transfer)
//	Fetch  whole directories of a program, which may have ended
//	Usage  how much of the disk they take
//
// The mounts of an engine.Spec say which directory of the host belongs to which of the program. What comes from the
// program is hostile.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"holon/internal/bridge"
	"holon/internal/transfer"
	"holon/runner/engine"
	"holon/state"
)

// Engine has programs with a stream.
type Engine interface {
	engine.Engine
	engine.Linker
}

// relinkPause is between two tries to make a broken link anew.
const relinkPause = 200 * time.Millisecond

// Join joins the sockets of spec with those of a running program until the link is closed or the program ends. A link
// that breaks is made anew. Of spec the mounts, sockets and users count.
func Join(ctx context.Context, eng Engine, h engine.Handle, spec engine.Spec) (*Joined, error) {
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
	user := spec.Helper()
	if spec.Server != nil {
		user = *spec.Server
	}
	open := func(ctx context.Context) (io.ReadWriteCloser, error) { return eng.Exec(ctx, h, user, command) }
	stream, err := open(ctx)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	l := &Joined{cancel: cancel, ended: make(chan struct{})}
	go func() {
		defer close(l.ended)
		for stream != nil {
			_ = side.Run(ctx, stream, true) // it says that it ended
			l.broken.Store(true)
			stream = again(ctx, eng, h, open)
			l.broken.Store(stream == nil)
		}
	}()
	return l, nil
}

// Joined is a link.
type Joined struct {
	cancel context.CancelFunc
	ended  chan struct{}
	broken atomic.Bool
}

// Broken reports whether the link is being made anew, or its program has ended.
func (l *Joined) Broken() bool { return l.broken.Load() }

// Close ends the link and the bridge in the container, and waits for its own side.
func (l *Joined) Close() error {
	l.cancel()
	<-l.ended
	return nil
}

// again makes a link anew. nil: there is no program any more, or ctx ended.
func again(ctx context.Context, eng engine.Engine, h engine.Handle,
	open func(context.Context) (io.ReadWriteCloser, error)) io.ReadWriteCloser {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(relinkPause):
		}
		found, err := eng.Inspect(ctx, h)
		if found.Exit != nil || state.IsCode(err, engine.CodeNotFound) {
			return nil
		}
		if stream, err := open(ctx); err == nil {
			return stream
		}
	}
}

// maxPrinted bounds what is read of a command's output.
const maxPrinted = 64 << 10

// Usage returns how many bytes of the disk what a running program wrote to its mounts takes, but for those that hold
// sockets. Commands of the program can neither stop nor deceive it where there is a Server. A mount that a command in
// the program cannot measure is read whole.
func Usage(ctx context.Context, eng Engine, h engine.Handle, spec engine.Spec) (int64, error) {
	command := slices.Clone(spec.Sockets.Usage)
	list := written(spec)
	for _, m := range list {
		if !slices.ContainsFunc(list, func(outer engine.Mount) bool { // which is measured with what is in it
			return strings.HasPrefix(m.Target, outer.Target+"/")
		}) {
			command = append(command, m.Target)
		}
	}
	stream, err := eng.Exec(ctx, h, spec.Helper(), command)
	if err != nil {
		return 0, err
	}
	defer stream.Close()
	defer context.AfterFunc(ctx, func() { stream.Close() })()
	printed, err := io.ReadAll(io.LimitReader(stream, maxPrinted))
	if ctx.Err() != nil {
		return 0, fmt.Errorf("measure container %s: %w", h.Name, context.Cause(ctx))
	}
	if state.IsCode(err, engine.CodeUnreachable) { // which the stream of some engines says late
		return 0, err
	}
	sum, closed, _ := strings.Cut(strings.TrimSpace(string(printed)), "\n")
	var bytes int64
	if err == nil {
		bytes, err = strconv.ParseInt(sum, 10, 64)
	}
	for dir := range strings.FieldsFuncSeq(closed, func(c rune) bool { return c == '\n' }) {
		if err == nil && slices.Contains(command, dir) {
			err = addWhole(ctx, eng, h, dir, &bytes)
		}
	}
	if err != nil {
		return 0, &engine.Error{Code: engine.CodeFailed, Message: "cannot measure container " + h.Name, Err: err}
	}
	return bytes, nil
}

func addWhole(ctx context.Context, eng engine.Linker, h engine.Handle, dir string, bytes *int64) error {
	content, err := eng.Read(ctx, h, dir)
	if err != nil {
		return err
	}
	n, err := transfer.Measure(content)
	*bytes += n
	return errors.Join(err, content.Close())
}

// moved are the mounts whose files change on one side or the other.
func moved(spec engine.Spec) []engine.Mount {
	return slices.DeleteFunc(slices.Clone(spec.Mounts), func(m engine.Mount) bool {
		return m.ReadOnly && !m.Updated || !m.IsDirectory() || slices.Contains(spec.Sockets.Dirs, m.Target)
	})
}

// written are the mounts that hold what the program writes to files.
func written(spec engine.Spec) []engine.Mount {
	return slices.DeleteFunc(moved(spec), func(m engine.Mount) bool { return m.ReadOnly })
}

// cut is an error of a stream, which may have ended in the middle and go better the next time.
func cut(err error, what string, h engine.Handle) error {
	if _, broke := errors.AsType[*transfer.BrokenError](err); broke || errors.Is(err, io.ErrUnexpectedEOF) {
		return &engine.Error{Code: engine.CodeUnreachable, Message: what + " of container " + h.Name + " was cut off",
			Hint: "try again once the engine answers", Err: err}
	}
	return fmt.Errorf("%s of container %s: %w", what, h.Name, err)
}
