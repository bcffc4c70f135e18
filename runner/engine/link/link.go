// Package link reaches programs of engines that share no directory with this process, by a command next to each
// (engine.Linker), whose standard streams carry all of this (package bridge).
//
//	Join   sockets of host and program
//	Files  directories of both that change, and how much of the disk they take (package transfer)
//
// Whole directories of a program, which may have ended, are read by the engine. The mounts of an engine.Spec say which
// directory of the host belongs to which of the program. What comes from the program is hostile.
package link

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
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
	if spec.Server != nil {
		command = append(command, "--user", spec.Server.String())
	}
	l := &Joined{eng: eng, handle: h, ended: make(chan struct{}), tried: make(chan struct{})}
	open := func(ctx context.Context) (*bridge.Bridge, error) {
		stream, err := eng.Exec(ctx, h, spec.Helper(), command)
		if err != nil {
			return nil, err
		}
		return bridge.New(stream, side, true)
	}
	first, err := open(ctx)
	if err != nil {
		return nil, err
	}
	l.bridge = first
	ctx, l.cancel = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.ended)
		for b := first; b != nil; b = l.again(ctx, open) {
			_ = b.Run(ctx) // it says that it ended
		}
	}()
	return l, nil
}

// Joined is a link.
type Joined struct {
	eng    Engine
	handle engine.Handle
	cancel context.CancelFunc
	ended  chan struct{}

	mu     sync.Mutex
	bridge *bridge.Bridge
	failed error         // the last try to make it anew
	tried  chan struct{} // closed at the next one
}

// Broken reports whether the link is being made anew, or its program has ended.
func (l *Joined) Broken() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.bridge.Broken()
}

// Close ends the link and the bridge in the container, and waits for its own side.
func (l *Joined) Close() error {
	l.cancel()
	<-l.ended
	return nil
}

// again makes the link anew. nil: the program or ctx has ended.
func (l *Joined) again(ctx context.Context, open func(context.Context) (*bridge.Bridge, error)) *bridge.Bridge {
	l.note(nil, nil)
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(relinkPause):
		}
		found, err := l.eng.Inspect(ctx, l.handle)
		if found.Exit != nil || state.IsCode(err, engine.CodeNotFound) {
			return nil
		}
		b, err := open(ctx)
		l.note(b, err)
		if err == nil {
			return b
		}
	}
}

// note keeps how a try to make the link went.
func (l *Joined) note(b *bridge.Bridge, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failed = err; b != nil {
		l.bridge = b
	}
	close(l.tried)
	l.tried = make(chan struct{})
}

// open calls a function of the bridge in the container. While the link is made anew it waits for the next try.
func (l *Joined) open(ctx context.Context, name string) (io.ReadWriteCloser, error) {
	for {
		l.mu.Lock()
		b, tried, err := l.bridge, l.tried, l.failed
		l.mu.Unlock()
		if stream, broken := b.Open(name); broken == nil {
			return stream, nil
		}
		if err != nil {
			return nil, err
		}
		select {
		case <-tried:
		case <-l.ended:
			return nil, &engine.Error{Code: engine.CodeUnreachable, Message: "container " + l.handle.Name + " has ended"}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
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
