package docker

import (
	"context"
	"crypto/tls"
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

// refusal is what an error of the Docker client means, with its remedy.
type refusal struct {
	of          bool
	code        engine.Code
	param, hint string
}

// refusals are what err can be, of which the first that fits holds.
func refusals(err error) []refusal {
	if ssh, ok := errors.AsType[*sshError](err); ok {
		return []refusal{{true, engine.CodeUnreachable, "engine", ssh.hint()}}
	}
	_, isCertificate := errors.AsType[*tls.CertificateVerificationError](err)
	return []refusal{
		{isCertificate, engine.CodeUnreachable, "engine", "ca.pem in DOCKER_CERT_PATH or the Docker context has to be of " +
			"the authority that signed the engine's certificate, which has to be valid now and to name its host"},
		{mentions(err, "remote error: tls:"), engine.CodeUnreachable, "engine",
			"cert.pem in DOCKER_CERT_PATH or the Docker context has to be one that the engine accepts"},
		{isPermission(err), engine.CodePermissionDenied, "engine",
			"add your user to the docker group (then log in again), or run as a user with access to the socket"},
		{client.IsErrConnectionFailed(err) || isTruncated(err) || errdefs.IsUnavailable(err), engine.CodeUnreachable,
			"engine", "start Docker, set DOCKER_HOST, or use --engine local, which confines nothing"},
		{errdefs.IsNotFound(err) && mentions(err, "no such container"), engine.CodeNotFound, "", ""},
		{errdefs.IsNotFound(err) && mentions(err, "network"), engine.CodeInvalidSpec, "network",
			"create the network, or use --network none"},
		// the last are Podman's words
		{errdefs.IsConflict(err) || errdefs.IsNotModified(err) || mentions(err, "that name is already in use"),
			engine.CodeConflict, "", ""},
		{mentions(err, "no space left on device"), engine.CodeResourceLimit, "disk",
			"free space where the engine keeps its data"},
		{mentions(err, "unknown runtime", "runtime not found", "invalid runtime name"), engine.CodeInvalidSpec, "runtime",
			"name one that the engine has (docker info lists them), or leave --runtime out"},
		{mentions(err, "setting rlimit"), engine.CodeResourceLimit, "open_files",
			"the engine's own limit is lower: raise LimitNOFILE of its service"},
		{mentions(err, "executable file not found", "no such file or directory: unknown", "exec format error",
			"permission denied: unknown"), engine.CodeCannotRun, "args",
			"the program must be in the image or a mount, executable, and built for this machine"},
		{errdefs.IsInvalidArgument(err), engine.CodeInvalidSpec, "", ""},
	}
}

// wrap gives an error of the Docker client its code and remedy. doing completes "cannot …".
func wrap(doing string, err error) error {
	if _, ok := errors.AsType[*engine.Error](err); ok || err == nil {
		return err
	}
	// The caller's own cancellation is not the engine's failure.
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("%s: %w", doing, err)
	}
	if ssh, ok := errors.AsType[*sshError](err); ok {
		err = ssh // the client's words around it say nothing
	}
	out := &engine.Error{Code: engine.CodeFailed, Message: "cannot " + doing, Err: tidied{err}}
	for _, r := range refusals(err) {
		if r.of {
			out.Code, out.Param, out.Hint = r.code, r.param, r.hint
			break
		}
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
			"the directory must exist on the machine that the engine runs on; elsewhere use --link stream"
	}
	return out
}

// isTruncated reports a connection that the daemon dropped within a call.
func isTruncated(err error) bool {
	_, ssh := errors.AsType[*sshError](err)
	return ssh || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
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

// tidied keeps the chain and shortens the text to one line without the client's
// prefix.
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
