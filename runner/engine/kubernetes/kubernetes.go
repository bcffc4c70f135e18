// Package kubernetes runs programs in Pods of a Kubernetes cluster, 1.30 or newer.
//
//	Pod: init container agentd ─▶ containers files and agent, one volume
//	     files   takes the files of the mounts before the start, and gives them back; it outlives the agent
//	     agent   the program's image; agentd is process 1, and starts the program
//
// A Pod shares nothing with this machine: files go through exec as tar streams, sockets through exec too (the bridge).
// It is the only importer of the Kubernetes client.
//
// The invariant: what a Pod may do is set by this package alone; an operator's template can say where it runs and
// nothing that loosens it. What Inspect reports comes from the Pod as the cluster has it. What the cluster does not say
// of itself, such as whether a plugin enforces its NetworkPolicy, is not reported as enforced.
//
// A namespace has the Pods of many homes, whose paths may be the same: a Pod has a label with the word of its owner.
// List returns those of the owner, Others the rest. No Pod is touched whose UID is not that of the handle. An engine
// has no state: every call reads the cluster.
package kubernetes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"

	"holon/runner/engine"
)

const (
	name = "kubernetes"

	// callTimeout bounds every call that does not wait for a program or a Pod.
	callTimeout = 60 * time.Second
	// qps bounds the requests of one engine in a second.
	qps = 100
)

// Options say where Pods run.
type Options struct {
	// Context is one of the kubeconfig (KUBECONFIG, or ~/.kube/config); "": its current one. Without a kubeconfig the
	// service account of the Pod that this process runs in counts.
	Context     string
	Namespace   string // "": that of the context
	AgentdImage string // holds agentd at AgentdPath
	PodFile     string // a template of Pods, see readTemplate; "": none
	// Owner is the home whose Pods these are, by a word that no other home has (state.Home.Owner); "": all are.
	Owner string
}

// AgentdPath is where Options.AgentdImage has agentd.
const AgentdPath = "/holon/bin/agentd"

// Engine is the kubernetes engine.
type Engine struct {
	options   Options
	namespace string
	cluster   string // tells clusters apart, in handles
	template  template
	config    *rest.Config
	codecs    runtime.ParameterCodec

	core, networking, authorization *rest.RESTClient

	allowed atomic.Bool // this user was seen to have all rights
}

var (
	_ engine.Engine = (*Engine)(nil)
	_ engine.Imager = (*Engine)(nil)
	_ engine.Linker = (*Engine)(nil)
	_ engine.Sharer = (*Engine)(nil)
)

// New makes a client. It does not connect: the first call does.
func New(o Options) (*Engine, error) {
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	loader := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(clientcmd.NewDefaultClientConfigLoadingRules(),
		overrides)
	config, err := loader.ClientConfig()
	namespace := o.Namespace
	if err == nil && namespace == "" {
		namespace, _, err = loader.Namespace()
	}
	if err != nil {
		return nil, &engine.Error{Code: engine.CodeUnreachable, Param: "engine", Message: "no cluster is configured",
			Hint: "set KUBECONFIG, or HOLON_KUBERNETES_CONTEXT to a context of it", Err: err}
	}
	return newEngine(o, config, namespace)
}

func newEngine(o Options, config *rest.Config, namespace string) (*Engine, error) {
	klog.SetLogger(logr.Discard()) // client-go prints what its callers are told as errors
	e := &Engine{options: o, namespace: namespace, config: config}
	if problems := invalidNamespace(namespace); problems != "" {
		return nil, invalid("kubernetes_namespace", "name a namespace", "%.100q is not one: %s", namespace, problems)
	}
	var err error
	if e.template, err = readTemplate(o.PodFile); err != nil {
		return nil, err
	}
	config.QPS, config.Burst, config.WarningHandler, config.UserAgent = qps, qps, rest.NoWarnings{}, "holon"
	sum := sha256.Sum256(config.CAData)
	if err := rest.LoadTLSFiles(config); err == nil && len(config.CAData) > 0 {
		sum = sha256.Sum256(config.CAData)
	} else {
		sum = sha256.Sum256([]byte(config.Host))
	}
	e.cluster = hex.EncodeToString(sum[:4])
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, networkingv1.AddToScheme,
		authorizationv1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, fmt.Errorf("prepare the Kubernetes client: %w", err)
		}
	}
	metav1.AddToGroupVersion(types, corev1.SchemeGroupVersion)
	e.codecs = runtime.NewParameterCodec(types)
	codecs := serializer.NewCodecFactory(types).WithoutConversion()
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, wrap("use the kubeconfig", err)
	}
	for to, of := range map[**rest.RESTClient]schema.GroupVersion{&e.core: corev1.SchemeGroupVersion,
		&e.networking: networkingv1.SchemeGroupVersion, &e.authorization: authorizationv1.SchemeGroupVersion} {
		c := rest.CopyConfig(config)
		c.GroupVersion, c.NegotiatedSerializer, c.APIPath = &of, codecs, "/apis"
		if of.Group == "" {
			c.APIPath = "/api"
		}
		if *to, err = rest.RESTClientForConfigAndClient(c, client); err != nil {
			return nil, wrap("use the kubeconfig", err)
		}
	}
	return e, nil
}

// Name implements engine.Engine.
func (e *Engine) Name() string { return name }

// Path implements engine.Engine: a container sees the targets of its mounts.
func (e *Engine) Path(_ []engine.Mount, target string) string { return target }

// Streams implements engine.Linker: a Pod shares no directory with this machine.
func (e *Engine) Streams(context.Context) (bool, error) { return true, nil }

// Close implements engine.Engine.
func (e *Engine) Close() error {
	utilnet.CloseIdleConnectionsFor(e.core.Client.Transport) // which the transports around it hide from the client
	return nil
}

// right is a verb on a resource that the engine needs.
type right struct{ group, resource, sub, verb string }

func (r right) String() string {
	return strings.TrimSuffix(r.verb+" "+r.resource+"/"+r.sub, "/")
}

// rights are all that the engine needs, in its namespace.
func rights() []right {
	list := []right{{"", "pods", "exec", "create"}, {"", "pods", "exec", "get"}, {"", "pods", "log", "get"},
		{"networking.k8s.io", "networkpolicies", "", "list"}, {"networking.k8s.io", "networkpolicies", "", "create"}}
	for _, verb := range []string{"create", "get", "list", "watch", "patch", "delete"} {
		list = append(list, right{"", "pods", "", verb})
	}
	return list
}

// Check implements engine.Engine. Without a right that the engine needs it is CodePermissionDenied.
func (e *Engine) Check(ctx context.Context) (engine.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	data, err := e.core.Get().AbsPath("/version").DoRaw(ctx)
	var version struct{ GitVersion, Major, Minor string }
	if err == nil {
		err = json.Unmarshal(data, &version)
	}
	if err != nil {
		return engine.Info{}, wrap("reach the Kubernetes API", err)
	}
	if err := e.checkRights(ctx); err != nil {
		return engine.Info{}, err
	}
	return engine.Info{Engine: name, Product: engine.ProductKubernetes, Version: version.GitVersion,
		Name:    "namespace " + e.namespace + " (" + e.config.Host + ")",
		Runtime: cmp.Or(deref(e.template.pod.Spec.RuntimeClassName), "of the cluster")}, nil
}

// checkRights refuses a user without the rights that the engine needs: a Pod that it could make and not remove would
// stay.
func (e *Engine) checkRights(ctx context.Context) error {
	missing, err := e.missing(ctx)
	if err == nil && len(missing) > 0 {
		err = &engine.Error{Code: engine.CodePermissionDenied, Param: "kubernetes_namespace",
			Message: fmt.Sprintf("the cluster does not allow in namespace %s: %s", e.namespace, strings.Join(missing, ", ")),
			Hint:    "bind a Role with these to the user or service account; docs/guides/kubernetes.md has it"}
	}
	e.allowed.Store(err == nil)
	return err
}

// missing are the rights that this user does not have.
func (e *Engine) missing(ctx context.Context) (list []string, err error) {
	for _, r := range rights() {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{
			ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: e.namespace, Verb: r.verb, Group: r.group,
				Resource: r.resource, Subresource: r.sub}}}
		var answer authorizationv1.SelfSubjectAccessReview
		err := e.authorization.Post().Resource("selfsubjectaccessreviews").Body(review).Do(ctx).Into(&answer)
		if err != nil {
			return nil, wrap("ask the cluster what this user may do", err)
		}
		if !answer.Status.Allowed {
			list = append(list, r.String())
		}
	}
	slices.Sort(list)
	return list, nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// find returns the Pod of a handle. One that is not there, or is another of the same name, is CodeNotFound.
func (e *Engine) find(ctx context.Context, h engine.Handle) (*corev1.Pod, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	uid, err := e.uidOf(h)
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	err = e.pods(h).Name(h.Name).Do(ctx).Into(pod)
	if err != nil {
		return nil, wrap("look at Pod "+h.Name, err)
	}
	if string(pod.UID) != uid {
		return nil, notFound(h)
	}
	return pod, nil
}

// pods is a request about Pods in the namespace of a handle.
func (e *Engine) pods(h engine.Handle) *rest.Request {
	return e.core.Get().Namespace(namespaceOf(h)).Resource("pods")
}

func notFound(h engine.Handle) *engine.Error {
	return &engine.Error{Code: engine.CodeNotFound, Message: "there is no Pod " + h.Name + " any more"}
}

// gone reports whether err says that a handle's Pod is not there.
func gone(err error) bool {
	e, ok := errors.AsType[*engine.Error](err)
	return ok && e.Code == engine.CodeNotFound
}
