// Package local runs programs as child processes of the host process. It
// confines nothing: no limit, mount, user or network setting of a Spec holds,
// and its Isolation says not_enforced on every axis.
//
// The invariant: no process is signalled that this engine did not start. A
// process is known by pid, start time and boot, and a process group is killed
// only while its leader is not reaped, so a recycled number is never hit.
//
// Programs do not outlive the host process (the kernel kills the leader when
// its parent dies). What a program started and moved out of its process group
// is found by an environment variable and killed too; a process that hides
// from that (it changed its user or its environment) is not.
package local

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"holon/internal/procfs"
	"holon/runner/engine"
)

const name = "local"

// Engine is the local engine.
type Engine struct {
	dir string
	env []string

	mu       sync.Mutex
	children map[string]*child // by handle ID, from Create to Remove
	closed   bool
}

var _ engine.Engine = (*Engine)(nil)

// Options configures New.
type Options struct {
	// Dir is a directory of this engine's own, created if need be. It holds one
	// directory per program with its record and its logs.
	Dir string
	// Env is what every program gets below the Env of its Spec. The host's own
	// environment is not inherited: it may hold keys.
	Env []string
}

// New opens the engine at its directory.
func New(options Options) (*Engine, error) {
	if !filepath.IsAbs(options.Dir) {
		return nil, &engine.Error{Code: engine.CodeInvalidSpec, Param: "dir",
			Message: fmt.Sprintf("directory %q is not absolute", options.Dir),
			Hint:    "give an absolute path"}
	}
	if err := os.MkdirAll(options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("create directory of the local engine: %w", err)
	}
	removeUnmade(options.Dir)
	return &Engine{dir: options.Dir, env: slices.Clone(options.Env), children: map[string]*child{}}, nil
}

// removeUnmade removes directories without a record, which a process left that was killed when it made or removed a
// program: none runs without one. What is as new as this may be another process's.
func removeUnmade(dir string) {
	entries, _ := os.ReadDir(dir) // what is left costs little
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || time.Since(info.ModTime()) < time.Minute {
			continue
		}
		path := filepath.Join(dir, e.Name())
		if _, err := os.Lstat(filepath.Join(path, recordFile)); errors.Is(err, fs.ErrNotExist) {
			_ = os.RemoveAll(path)
		}
	}
}

// Name implements engine.Engine.
func (e *Engine) Name() string { return name }

// Path implements engine.Engine: the program sees the sources of the mounts.
func (e *Engine) Path(mounts []engine.Mount, target string) string {
	if path, ok := engine.HostPath(mounts, target); ok {
		return path
	}
	return target
}

// Check implements engine.Engine.
func (e *Engine) Check(ctx context.Context) (engine.Info, error) {
	if err := ctx.Err(); err != nil {
		return engine.Info{}, err
	}
	if _, err := procfs.BootID(); err != nil {
		return engine.Info{}, &engine.Error{Code: engine.CodeUnreachable, Param: "engine", Err: err,
			Message: "the local engine needs /proc", Hint: "run on Linux with /proc mounted"}
	}
	return engine.Info{Engine: name, Name: "this machine"}, nil
}

// Create implements engine.Engine.
func (e *Engine) Create(ctx context.Context, spec engine.Spec) (engine.Handle, error) {
	if err := ctx.Err(); err != nil {
		return engine.Handle{}, err
	}
	spec, err := spec.Complete()
	if err != nil {
		return engine.Handle{}, err
	}
	if err := checkUser(*spec.User); err != nil {
		return engine.Handle{}, err
	}
	c, err := newChild(e.dir, e.env, spec)
	if err != nil {
		return engine.Handle{}, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return engine.Handle{}, errors.Join(errClosed(), os.RemoveAll(c.dir))
	}
	e.children[c.record.Handle.ID] = c
	return c.record.Handle, nil
}

// Close implements engine.Engine: it kills what runs and waits for it. Records
// and logs stay until Remove.
func (e *Engine) Close() error {
	e.mu.Lock()
	e.closed = true
	children := make([]*child, 0, len(e.children))
	for _, c := range e.children {
		children = append(children, c)
	}
	e.mu.Unlock()
	for _, c := range children {
		c.abandon()
	}
	return nil
}

// own returns the child that this process created for h.
func (e *Engine) own(h engine.Handle) (*child, bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c, ok := e.children[h.ID]
	return c, ok
}

// record is the file record.json of a program, replaced whole at each step of
// its life. A record of another version is not touched.
type record struct {
	Handle engine.Handle     `json:"handle"`
	Labels map[string]string `json:"labels"`
	User   engine.User       `json:"user"`
	Times  struct {
		Created time.Time `json:"created"`
	} `json:"times"`
	Leader *procfs.Process `json:"leader,omitempty"` // from Start on
	Exit   *engine.Exit    `json:"exit,omitempty"`
}

const (
	recordFile    = "record.json"
	maxRecordSize = 1 << 20
)

// find returns the record of h, from memory or from the directory.
func (e *Engine) find(h engine.Handle) (record, error) {
	if c, ok := e.own(h); ok {
		return c.snapshot(), nil
	}
	r, err := readRecord(filepath.Join(e.dir, h.Name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return record{}, err
	}
	if err != nil || r.Handle.ID != h.ID {
		return record{}, &engine.Error{Code: engine.CodeNotFound,
			Message: "no program " + h.Name + " of the local engine"}
	}
	return r, nil
}

func readRecord(dir string) (record, error) {
	path := filepath.Join(dir, recordFile)
	info, err := os.Lstat(path)
	if err != nil {
		return record{}, err
	}
	var r record
	if !info.Mode().IsRegular() || info.Size() > maxRecordSize {
		return record{}, fmt.Errorf("read record: %s is not a record", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return record{}, err
	}
	if err := json.Unmarshal(data, &r); err != nil {
		return record{}, fmt.Errorf("read record %s: %w", path, err)
	}
	return r, engine.CheckHandle(r.Handle, name)
}

func checkUser(user engine.User) error {
	self := engine.User{UID: os.Getuid(), GID: os.Getgid()}
	if user == self || self.UID == 0 {
		return nil
	}
	return &engine.Error{Code: engine.CodePermissionDenied, Param: "user",
		Message: fmt.Sprintf("cannot run as %d:%d from %d:%d", user.UID, user.GID, self.UID, self.GID),
		Hint:    "run as yourself, or use docker"}
}

func errClosed() error {
	return &engine.Error{Code: engine.CodeUnreachable, Message: "the local engine is closed"}
}
