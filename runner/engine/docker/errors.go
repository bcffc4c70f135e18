package docker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"

	"github.com/containerd/errdefs"
	"github.com/docker/docker/client"

	"holon/runner/engine"
)

// wrap gives an error of the Docker client its code and remedy. doing completes "cannot …". It is one function because
// it is a table, in which the first case that fits wins.
func wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*engine.Error](err); ok {
		return err
	}
	// The caller's own cancellation is not the engine's failure.
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	out := &engine.Error{Code: engine.CodeFailed, Message: "cannot " + doing, Err: tidy(err)}
	switch {
	case isPermission(err):
		out.Code, out.Param, out.Hint = engine.CodePermissionDenied, "engine",
			"add your user to the docker group (then log in again), or run as a user who may use the socket"
	case client.IsErrConnectionFailed(err), isTruncated(err), errdefs.IsUnavailable(err):
		out.Code, out.Param, out.Hint = engine.CodeUnreachable, "engine",
			"start Docker, set DOCKER_HOST, or use --engine local, which confines nothing"
	case errdefs.IsNotFound(err) && mentions(err, "no such container"):
		out.Code = engine.CodeNotFound
	case errdefs.IsNotFound(err) && mentions(err, "network"):
		out.Code, out.Param, out.Hint = engine.CodeInvalidSpec, "network", "create the network, or use --network none"
	// Podman's words
	case errdefs.IsConflict(err), errdefs.IsNotModified(err), mentions(err, "that name is already in use"):
		out.Code = engine.CodeConflict
	case mentions(err, "no space left on device"):
		out.Code, out.Param, out.Hint = engine.CodeResourceLimit, "disk", "free space where the engine keeps its data"
	case mentions(err, "unknown runtime", "runtime not found", "invalid runtime name"):
		out.Code, out.Param, out.Hint = engine.CodeInvalidSpec, "runtime",
			"name one that the engine has (docker info lists them), or leave --runtime out"
	case mentions(err, "setting rlimit"):
		out.Code, out.Param, out.Hint = engine.CodeResourceLimit, "open_files",
			"the engine's own limit is lower: raise LimitNOFILE of its service"
	case mentions(err, "executable file not found", "no such file or directory: unknown", "exec format error",
		"permission denied: unknown"):
		out.Code, out.Param, out.Hint = engine.CodeCannotRun, "args",
			"the program must be in the image or a mount, executable, and built for this machine"
	case errdefs.IsInvalidArgument(err):
		out.Code = engine.CodeInvalidSpec
	}
	return out
}

// wrapCreate is wrap with what the daemon's refusals mean for a spec.
func wrapCreate(spec engine.Spec, err error) error {
	out, ok := errors.AsType[*engine.Error](wrap("create container "+spec.Name, err))
	if !ok {
		return wrap("create container "+spec.Name, err)
	}
	switch {
	case errdefs.IsNotFound(err) && mentions(err, "no such image", "no such manifest", "image not known"):
		out.Code, out.Param, out.Err = engine.CodeImageNotFound, "image", nil // the daemon says no more
		out.Message = fmt.Sprintf("image %s is not on this machine", spec.Image)
		out.Hint = fmt.Sprintf("make image (builds the base image), docker pull %s, or name another with --image",
			spec.Image)
	case out.Code == engine.CodeConflict && out.Param == "":
		out.Param, out.Hint = "name", "choose another name, or remove the container that has it"
	case mentions(err, "invalid reference format", "must be lowercase"):
		out.Code, out.Param, out.Hint = engine.CodeInvalidSpec, "image", "name an image like holon/base:latest"
	case mentions(err, "minimum memory limit"):
		out.Code, out.Param, out.Hint = engine.CodeResourceLimit, "memory", "use --memory 64m or more"
	case mentions(err, "range of cpus", "nanocpus"):
		out.Code, out.Param, out.Hint = engine.CodeResourceLimit, "cpus", "ask for no more CPUs than the machine has"
	case mentions(err, "bind source path does not exist", "invalid mount config"):
		out.Code, out.Param, out.Hint = engine.CodeInvalidSpec, "mounts",
			"the directory must exist on the machine that the engine runs on"
	}
	return out
}

// isTruncated reports a connection that the daemon dropped within a call.
func isTruncated(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// isPermission looks at the text too, because the client hides the cause.
func isPermission(err error) bool {
	return errors.Is(err, os.ErrPermission) ||
		client.IsErrConnectionFailed(err) && mentions(err, "permission denied")
}

func mentions(err error, phrases ...string) bool {
	text := strings.ToLower(err.Error())
	for _, phrase := range phrases {
		if strings.Contains(text, phrase) {
			return true
		}
	}
	return false
}

// tidy keeps the chain and shortens the text to one line without the client's
// prefix.
func tidy(err error) error { return tidied{err} }

type tidied struct{ cause error }

func (t tidied) Unwrap() error { return t.cause }

func (t tidied) Error() string {
	text := strings.TrimPrefix(t.cause.Error(), "Error response from daemon: ")
	text, _, _ = strings.Cut(strings.TrimSpace(text), "\n")
	const limit = 500
	if len(text) > limit {
		text = strings.ToValidUTF8(text[:limit], "") + "…"
	}
	return text
}
