package kubernetes

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// template is what an operator decides of every Pod.
type template struct {
	pod   corev1.Pod
	files *corev1.ResourceRequirements // of the containers init and files; nil: ours
}

// maxTemplate bounds the file of a template, in bytes.
const maxTemplate = 1 << 20

// allowed are the fields that a template may set: where a Pod runs, what its images are pulled with, and what is
// written on it. All others could loosen its isolation, or are this package's.
func allowed() map[string][]string {
	return map[string][]string{
		"":         {"apiVersion", "kind", "metadata", "spec"},
		"metadata": {"annotations", "labels"},
		"spec": {"affinity", "containers", "imagePullSecrets", "nodeSelector", "priorityClassName", "runtimeClassName",
			"schedulerName", "tolerations", "topologySpreadConstraints"},
		"spec.containers": {"name", "resources"},
	}
}

// readTemplate reads a Pod as YAML or JSON. It may have a container "files", with resources. A field that is not
// allowed is refused by its name.
func readTemplate(file string) (t template, err error) {
	if file == "" {
		return t, nil
	}
	refused := func(hint, format string, args ...any) (template, error) {
		return template{}, invalid("kubernetes_pod", hint, "the template %s: %s", tidied{errors.New(file)},
			fmt.Sprintf(format, args...))
	}
	info, err := os.Stat(file)
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxTemplate) {
		return refused("name a file with a Pod", "it is no file, or has more than %d bytes", maxTemplate)
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(file)
	}
	if err == nil {
		err = yaml.UnmarshalStrict(data, &t.pod)
	}
	if err != nil {
		return refused("write a Pod as YAML, as in docs/guides/kubernetes.md", "%v", tidied{err})
	}
	if t.pod.Kind != "Pod" || t.pod.APIVersion != "v1" {
		return refused("begin it with apiVersion: v1 and kind: Pod", "it is no Pod of v1")
	}
	if documents(data) > 1 {
		return refused("leave one Pod in it", "it has several documents of YAML")
	}
	var tree map[string]any
	if err := yaml.Unmarshal(data, &tree); err != nil {
		return refused("write a Pod as YAML", "%v", tidied{err})
	}
	if field := forbidden(tree, ""); field != "" {
		return refused("leave it out; docs/guides/kubernetes.md lists what a template may set", "%s is not to be set", field)
	}
	for _, c := range t.pod.Spec.Containers {
		if c.Name != filesName || t.files != nil {
			return refused("give it one container, named files, with resources", "it has a container %.60q", c.Name)
		}
		t.files = &c.Resources
	}
	for kind, keys := range map[string]map[string]string{"labels": t.pod.Labels, "annotations": t.pod.Annotations} {
		for key := range keys {
			if isReserved(key) {
				return refused("leave it out", "metadata.%s.%s is not to be set", kind, key)
			}
		}
	}
	t.pod.Spec.Containers = nil
	return t, nil
}

// isReserved reports whether a label or an annotation is holon's own, or an older way to loosen a container.
func isReserved(key string) bool {
	for _, prefix := range []string{"holon.", "container.apparmor.security.", "seccomp.security."} {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// documents counts the documents of YAML that say something.
func documents(data []byte) (n int) {
	for r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data))); ; {
		doc, err := r.Read()
		if err != nil {
			return n
		}
		var said any
		if yaml.Unmarshal(doc, &said) != nil || said != nil {
			n++
		}
	}
}

// forbidden names a field that is not allowed, "" if there is none. at is the path of tree.
func forbidden(tree map[string]any, at string) string {
	may, known := allowed()[at]
	if !known { // below what is allowed all is
		return ""
	}
	for _, key := range sortedKeys(tree) {
		path := key
		if at != "" {
			path = at + "." + key
		}
		if !slices.Contains(may, key) {
			return path
		}
		for _, below := range elements(tree[key]) {
			if field := forbidden(below, path); field != "" {
				return field
			}
		}
	}
	return ""
}

// elements are the objects that a value is, or is a list of.
func elements(value any) (list []map[string]any) {
	switch v := value.(type) {
	case map[string]any:
		return []map[string]any{v}
	case []any:
		for _, one := range v {
			list = append(list, elements(one)...)
		}
	}
	return list
}
