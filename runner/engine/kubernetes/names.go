package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"holon/runner/engine"
)

// Keys of annotations and labels of a Pod.
const (
	labelsKey  = "holon.labels"  // annotation: all labels of the spec, as JSON
	createKey  = "holon.create"  // annotation: a random word for each call of Create
	madeKey    = "holon.made"    // annotation: when the Pod had all its files
	startedKey = "holon.started" // annotation: when Start was called
	ownerKey   = "holon.owner"   // label: Options.Owner
	podKey     = "holon.pod"     // label of every Pod, by which the NetworkPolicy selects them
	podValue   = "agent"
)

// hashed is a word for s that may be part of every name of Kubernetes.
func hashed(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:8])
}

// podName is the name of the Pod of a spec's name: the same where it can be, else with a hash.
func podName(spec string) string {
	if len(validation.IsDNS1123Label(spec)) == 0 {
		return spec
	}
	clean := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(spec))
	const most = validation.DNS1123LabelMaxLength - 17
	return strings.Trim(clean[:min(len(clean), most)], "-") + "-" + hashed(spec)
}

func invalidNamespace(namespace string) string {
	return strings.Join(validation.IsDNS1123Label(namespace), ", ")
}

// podLabels are the labels of a Pod for those of a spec: the same where Kubernetes can have them, else hashes.
func podLabels(of map[string]string) map[string]string {
	out := map[string]string{podKey: podValue}
	for key, value := range of {
		if len(validation.IsQualifiedName(key)) > 0 {
			key = "h-" + hashed(key)
		}
		if len(validation.IsValidLabelValue(value)) > 0 {
			value = "h-" + hashed(value)
		}
		out[key] = value
	}
	return out
}

// selector selects the Pods that may have all the labels: those of the owner, or those of others.
func (e *Engine) selector(of map[string]string, others bool) string {
	s := labels.SelectorFromSet(podLabels(of)).String()
	switch {
	case others:
		return s + "," + ownerKey + "!=" + hashed(e.options.Owner)
	case e.options.Owner != "":
		return s + "," + ownerKey + "=" + hashed(e.options.Owner)
	}
	return s
}

// specLabels are the labels of the spec that a Pod was made from; nil for a Pod that is not ours.
func specLabels(pod *corev1.Pod) (out map[string]string) {
	if json.Unmarshal([]byte(pod.Annotations[labelsKey]), &out) != nil {
		return nil
	}
	return out
}

// has reports whether all the labels are among those of a Pod.
func has(pod *corev1.Pod, wanted map[string]string) bool {
	all := specLabels(pod)
	for key, value := range wanted {
		if found, ok := all[key]; !ok || found != value {
			return false
		}
	}
	return true
}

// The id of a handle is UID.CLUSTER.NAMESPACE.
func (e *Engine) handle(pod *corev1.Pod) engine.Handle {
	return engine.Handle{Version: engine.HandleVersion, Engine: name, Name: pod.Name, Link: engine.LinkStream,
		ID: string(pod.UID) + "." + e.cluster + "." + pod.Namespace}
}

func namespaceOf(h engine.Handle) string {
	_, rest, _ := strings.Cut(h.ID, ".")
	_, namespace, _ := strings.Cut(rest, ".")
	return namespace
}

// uidOf returns the UID of a handle's Pod. One of another cluster is refused: here it would seem to be gone.
func (e *Engine) uidOf(h engine.Handle) (string, error) {
	uid, rest, _ := strings.Cut(h.ID, ".")
	cluster, namespace, _ := strings.Cut(rest, ".")
	if invalidNamespace(namespace) != "" || len(validation.IsDNS1123Subdomain(h.Name)) > 0 || uid == "" {
		return "", invalid("handle", "remove the record that holds it", "%.80q is not the id of a Pod", h.ID)
	}
	if cluster != e.cluster {
		return "", &engine.Error{Code: engine.CodeUnreachable, Param: "kubernetes_context",
			Message: "Pod " + h.Name + " is in another cluster than " + e.config.Host,
			Hint:    "set KUBECONFIG or HOLON_KUBERNETES_CONTEXT to the cluster in which it was made"}
	}
	return uid, nil
}

// place is the path in the volume of what is mounted at target.
func place(target string) string { return "m-" + hashed(target) }

// sortedKeys are the keys of a map, sorted.
func sortedKeys[V any](of map[string]V) []string { return slices.Sorted(maps.Keys(of)) }
