package kubernetes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"holon/internal/visible"
	"holon/runner/engine"
)

// refusal is what an error of the cluster means, with its remedy.
type refusal struct {
	of          bool
	code        engine.Code
	param, hint string
}

// refusals are what err can be, of which the first that fits holds.
func refusals(err error) []refusal {
	mentions := func(phrase string) bool { return strings.Contains(strings.ToLower(err.Error()), phrase) }
	forbidden := apierrors.IsForbidden(err)
	return []refusal{
		{forbidden && mentions("exceeded quota"), engine.CodeResourceLimit, "memory",
			"ask for less with --memory and --cpus, end other agents, or raise the ResourceQuota of the namespace"},
		{forbidden && mentions("limits.") || forbidden && mentions("maximum "), engine.CodeResourceLimit, "memory",
			"ask for less with --memory and --cpus, or change the LimitRange of the namespace"},
		{forbidden && mentions("podsecurity"), engine.CodePermissionDenied, "user",
			"the namespace has to admit the profile baseline where agentd and its commands are two users, or root is asked " +
				"for; docs/guides/kubernetes.md says how"},
		{forbidden && mentions("runtimeclass"), engine.CodeInvalidSpec, "runtime",
			"name a RuntimeClass of the cluster, or leave --runtime out"},
		{apierrors.IsNotFound(err) && mentions("namespaces"), engine.CodeInvalidSpec, "kubernetes_namespace",
			"create the namespace, or set HOLON_KUBERNETES_NAMESPACE to another one"},
		{forbidden && mentions("being terminated"), engine.CodeInvalidSpec, "kubernetes_namespace",
			"set HOLON_KUBERNETES_NAMESPACE to another namespace"},
		{forbidden, engine.CodePermissionDenied, "engine",
			"bind the Role of docs/guides/kubernetes.md to the user or service account"},
		{apierrors.IsUnauthorized(err), engine.CodePermissionDenied, "engine",
			"log in to the cluster again, or correct the user of the kubeconfig"},
		{apierrors.IsNotFound(err), engine.CodeNotFound, "", ""},
		{apierrors.IsAlreadyExists(err), engine.CodeConflict, "name",
			"choose another name, or remove the Pod that has it"},
		{apierrors.IsInvalid(err) || apierrors.IsBadRequest(err), engine.CodeInvalidSpec, "", "the API server says why"},
		{isAway(err), engine.CodeUnreachable, "engine",
			"look whether the API server answers, with: kubectl version"},
	}
}

// isAway reports whether the API server could not be reached, or not answer.
func isAway(err error) bool {
	_, network := errors.AsType[net.Error](err)
	return network || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.Is(err, syscall.ECONNREFUSED) || errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsServiceUnavailable(err) || apierrors.IsInternalError(err) || apierrors.IsUnexpectedServerError(err)
}

// wrap gives an error of the Kubernetes client its code and remedy. doing completes "cannot …".
func wrap(doing string, err error) error {
	if _, ok := errors.AsType[*engine.Error](err); ok || err == nil {
		return err
	}
	// The caller's own cancellation is not the cluster's failure.
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", doing, err)
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

func invalid(param, hint, format string, args ...any) *engine.Error {
	return &engine.Error{Code: engine.CodeInvalidSpec, Param: param, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

// tidied keeps the chain and shortens the text to one visible line.
type tidied struct{ cause error }

func (t tidied) Unwrap() error { return t.cause }

func (t tidied) Error() string { return visible.OneLine(t.cause.Error(), 500) }
