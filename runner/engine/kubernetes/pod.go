package kubernetes

import (
	"encoding/json"
	"fmt"
	"maps"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"holon/runner/engine"
)

// Names within a Pod.
const (
	initName  = "agentd"
	filesName = "files"
	agentName = "agent"

	filesVolume = "files"
	volumePath  = "/holon-files" // where init and files see all of the volume
	holdPath    = "/.holon"      // where agent sees agentd, of the volume
	binDir      = "bin"          // of the volume
	podAgentd   = holdPath + "/agentd"
)

// Limits of what the container files may use, and of the volume.
const (
	filesMemory = 256 << 20
	filesCPU    = 1000 // thousandths
	filesAsked  = 50   // thousandths that are reserved for it
	volumeLimit = 20 << 30
	graceTime   = 10 // seconds, when the cluster ends a Pod
	// cpuShare is the part of the limit of CPUs that is reserved: an agent waits for its models most of the time.
	cpuShare = 8
)

// separating are the capabilities of a program that becomes two users.
var separating = []corev1.Capability{"CHOWN", "KILL", "SETGID", "SETUID"}

// ofFiles are those of root in the container files, which takes and gives files of every owner.
var ofFiles = []corev1.Capability{"CHOWN", "DAC_OVERRIDE", "FOWNER"}

// render translates a completed spec. Everything that decides isolation is set here; isolation.go reads the same fields
// back.
func (e *Engine) render(spec engine.Spec, nonce string) (*corev1.Pod, error) {
	all, err := json.Marshal(spec.Labels)
	if err != nil {
		return nil, fmt.Errorf("write the labels: %w", err)
	}
	pod := e.template.pod.DeepCopy()
	pod.TypeMeta = metav1.TypeMeta{Kind: "Pod", APIVersion: "v1"}
	pod.Name, pod.Namespace = podName(spec.Name), e.namespace
	pod.Labels, pod.Annotations = over(pod.Labels, podLabels(spec.Labels)), over(pod.Annotations,
		map[string]string{labelsKey: string(all), createKey: nonce})
	if e.options.Owner != "" {
		pod.Labels[ownerKey] = hashed(e.options.Owner)
	}
	user := containerUser(spec)
	s := &pod.Spec
	s.RestartPolicy = corev1.RestartPolicyNever
	s.AutomountServiceAccountToken, s.EnableServiceLinks, s.ShareProcessNamespace = new(false), new(false), new(false)
	s.TerminationGracePeriodSeconds = new(int64(graceTime))
	s.SecurityContext = &corev1.PodSecurityContext{RunAsNonRoot: new(user.UID != 0),
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	if spec.Runtime != "" {
		s.RuntimeClassName = &spec.Runtime
	}
	if len(spec.Hosts) > 0 {
		s.HostAliases = []corev1.HostAlias{{IP: "127.0.0.1", Hostnames: spec.Hosts}}
	}
	s.Volumes = volumes()
	s.InitContainers = []corev1.Container{e.filesContainer(spec, initName, prepare(spec)...)}
	s.Containers = []corev1.Container{e.filesContainer(spec, filesName, "wait"), agentContainer(spec)}
	return pod, nil
}

// over returns below with what is above.
func over(below, above map[string]string) map[string]string {
	out := map[string]string{}
	maps.Copy(out, below)
	maps.Copy(out, above)
	return out
}

// containerUser is the user that the containers begin as.
func containerUser(spec engine.Spec) engine.User {
	if spec.Server != nil {
		return engine.User{}
	}
	return *spec.User
}

func security(user engine.User, add []corev1.Capability) *corev1.SecurityContext {
	return &corev1.SecurityContext{
		RunAsUser: new(int64(user.UID)), RunAsGroup: new(int64(user.GID)), RunAsNonRoot: new(user.UID != 0),
		Privileged: new(false), AllowPrivilegeEscalation: new(false), ReadOnlyRootFilesystem: new(true),
		Capabilities:   &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: add},
		SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
	}
}

// filesContainer runs a step of "agentd pod" next to the agent.
func (e *Engine) filesContainer(spec engine.Spec, name string, step ...string) corev1.Container {
	user := containerUser(spec)
	var add []corev1.Capability
	if user.UID == 0 {
		add = ofFiles
	}
	c := corev1.Container{Name: name, Image: e.options.AgentdImage, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: append([]string{AgentdPath, "pod"}, step...), WorkingDir: "/", SecurityContext: security(user, add),
		VolumeMounts: []corev1.VolumeMount{{Name: filesVolume, MountPath: volumePath}},
		Resources: corev1.ResourceRequirements{
			Limits: corev1.ResourceList{corev1.ResourceMemory: quantity(filesMemory), corev1.ResourceCPU: milli(filesCPU)},
			Requests: corev1.ResourceList{corev1.ResourceMemory: quantity(filesMemory / 4),
				corev1.ResourceCPU: milli(filesAsked)},
		}}
	if r := e.template.files; r != nil {
		c.Resources = *r.DeepCopy()
	}
	return c
}

// prepare makes the places of the mounts before the agent's container mounts them.
func prepare(spec engine.Spec) []string {
	step := []string{"prepare", volumePath}
	for _, m := range spec.Mounts {
		at := place(m.Target)
		if m.IsDirectory() {
			at += "/"
		}
		step = append(step, at)
	}
	return step
}

func agentContainer(spec engine.Spec) corev1.Container {
	var add []corev1.Capability
	var env []corev1.EnvVar
	if spec.Server != nil {
		add = separating
		env = []corev1.EnvVar{{Name: engine.EnvServer, Value: spec.Server.String()},
			{Name: engine.EnvCommand, Value: spec.User.String()}}
	}
	mounts := []corev1.VolumeMount{{Name: filesVolume, MountPath: holdPath, SubPath: binDir, ReadOnly: true}}
	for _, m := range spec.Mounts {
		mounts = append(mounts, corev1.VolumeMount{Name: filesVolume, MountPath: m.Target, SubPath: place(m.Target),
			ReadOnly: m.ReadOnly && !m.Updated})
	}
	for _, t := range engine.AllTmpfs() {
		mounts = append(mounts, corev1.VolumeMount{Name: tmpfsVolume(t), MountPath: t.Target})
	}
	return corev1.Container{Name: agentName, Image: spec.Image, ImagePullPolicy: corev1.PullIfNotPresent,
		Command: hold(), WorkingDir: "/", Env: env, SecurityContext: security(containerUser(spec), add),
		VolumeMounts: mounts, Resources: resources(spec)}
}

// Flags of "agentd pod hold", which isolation.go reads back.
const (
	flagOpenFiles = "--open-files="
	flagFileSize  = "--file-size="
	flagCore      = "--core="
)

func hold() []string {
	return []string{podAgentd, "pod", "hold", flagOpenFiles + strconv.Itoa(engine.MaxOpenFiles),
		flagFileSize + strconv.Itoa(engine.MaxFileSize), flagCore + "0"}
}

func resources(spec engine.Spec) corev1.ResourceRequirements {
	cpu := spec.NanoCPUs / 1e6
	r := corev1.ResourceRequirements{
		Limits:   corev1.ResourceList{corev1.ResourceCPU: milli(cpu)},
		Requests: corev1.ResourceList{corev1.ResourceCPU: milli(max(1, cpu/cpuShare))},
	}
	if spec.Memory != engine.Unlimited { // reserved whole, so that there is no swap on top
		r.Limits[corev1.ResourceMemory], r.Requests[corev1.ResourceMemory] = quantity(spec.Memory), quantity(spec.Memory)
	}
	return r
}

func quantity(bytes int64) resource.Quantity { return *resource.NewQuantity(bytes, resource.BinarySI) }

func milli(n int64) resource.Quantity { return *resource.NewMilliQuantity(n, resource.DecimalSI) }

// volumes are the one with all files, and those in memory.
func volumes() []corev1.Volume {
	size := func(n int64) *resource.Quantity { return new(quantity(n)) }
	list := []corev1.Volume{{Name: filesVolume, VolumeSource: corev1.VolumeSource{
		EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: size(volumeLimit)}}}}
	for _, t := range engine.AllTmpfs() {
		list = append(list, corev1.Volume{Name: tmpfsVolume(t), VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory, SizeLimit: size(t.Size)}}})
	}
	return list
}

// tmpfsVolume is the name of the volume of a file system in memory.
func tmpfsVolume(t engine.Tmpfs) string {
	return "memory" + strings.ReplaceAll(t.Target, "/", "-")
}

// suits refuses what a Pod cannot do.
func (e *Engine) suits(spec engine.Spec) error {
	switch {
	case spec.Service != nil:
		return noServices()
	case spec.Network != engine.NetworkNone:
		return invalid("network", "leave --network out, and use --allow-host for what the agent has to reach",
			"the engine kubernetes has no network %.60q: its Pods are cut off", spec.Network)
	case e.options.AgentdImage == "":
		return invalid("kubernetes_agentd_image", "set HOLON_KUBERNETES_AGENTD_IMAGE to an image that the cluster can pull",
			"no image with agentd is set")
	}
	for _, m := range spec.Mounts {
		if strings.Contains(m.Target, ":") {
			return invalid("mounts", "choose another target", "a Pod cannot mount at %.200q, which has a colon", m.Target)
		}
	}
	return nil
}

func noServices() *engine.Error {
	return invalid("service", "use --engine docker, or --allow-host for a service that runs elsewhere",
		"the engine kubernetes runs no services next to an agent")
}
