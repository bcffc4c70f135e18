package kubernetes

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"holon/runner/engine"
	"holon/state"
	"holon/test/expect"
)

// open returns an engine that reaches nothing.
func open(t *testing.T, template string) (*Engine, error) {
	t.Helper()
	o := Options{AgentdImage: "registry/agentd:1", Owner: "one"}
	if template != "" {
		o.PodFile = filepath.Join(t.TempDir(), "pod.yaml")
		expect.NoError(t, os.WriteFile(o.PodFile, []byte(template), 0o600))
	}
	return newEngine(o, &rest.Config{Host: "http://127.0.0.1:1"}, "agents")
}

func renderOne(t *testing.T, change func(*engine.Spec)) *corev1.Pod {
	t.Helper()
	e, err := open(t, "")
	expect.NoError(t, err)
	spec := engine.Spec{Name: "holon-run_01J", Image: "base", Args: []string{"/program"}, Env: []string{"KEY=secret"},
		User: &engine.User{UID: 1000, GID: 1001}, NanoCPUs: 2e9, Labels: map[string]string{"holon.run": "a b"},
		Mounts: []engine.Mount{{Source: t.TempDir(), Target: "/work"}, {Source: t.TempDir(), Target: "/in", ReadOnly: true}}}
	change(&spec)
	spec, err = spec.Complete()
	expect.NoError(t, err)
	pod, err := e.render(spec, "nonce")
	expect.NoError(t, err)
	return pod
}

// What a Pod is made with keeps what a run asks for, but for what a cluster does not promise.
func TestIsolation(t *testing.T) {
	for name, tc := range map[string]struct {
		change             func(*engine.Spec)
		user, capabilities string
	}{
		"one user": {func(*engine.Spec) {}, "1000:1001", "none"},
		"two users": {func(s *engine.Spec) { s.Server = &engine.User{UID: 2000, GID: 2000} }, "1000:1001",
			"none, CAP_CHOWN,CAP_KILL,CAP_SETGID,CAP_SETUID of the program itself"},
	} {
		t.Run(name, func(t *testing.T) {
			var spec engine.Spec
			pod := renderOne(t, func(s *engine.Spec) { tc.change(s); spec = *s })
			got := isolation(pod, []networkingv1.NetworkPolicy{*denyAll()})
			expect.Equal(t, "weak axes", strings.Join(engine.Weak(got, spec), " "), "network pids tmpfs cgroup")
			expect.Equal(t, "user", got.User.Value, tc.user)
			expect.Equal(t, "capabilities", got.Capabilities.Value, tc.capabilities)
			expect.Equal(t, "mounts", got.Mounts.Value, "/in ro volume, /work rw volume")
			expect.Equal(t, "open files", got.OpenFiles.Value, "16384")
			expect.Equal(t, "without a policy", isolation(pod, nil).Network.Level, engine.NotEnforced)
			for _, loosen := range []func(*corev1.Pod){
				func(p *corev1.Pod) { p.Spec.HostPID = true },
				func(p *corev1.Pod) { p.Spec.HostIPC = true },
				func(p *corev1.Pod) { p.Spec.Containers[1].SecurityContext.Privileged = new(true) },
				func(p *corev1.Pod) { p.Spec.Containers[1].SecurityContext.AllowPrivilegeEscalation = nil },
				func(p *corev1.Pod) { p.Spec.Containers[1].SecurityContext.SeccompProfile = nil },
				func(p *corev1.Pod) { p.Spec.Containers[1].Command = []string{"/program"} },
				func(p *corev1.Pod) { p.Spec.Volumes[0].EmptyDir = nil },
				func(p *corev1.Pod) { p.Spec.RuntimeClassName = new("unknown") },
			} {
				loose := pod.DeepCopy()
				loosen(loose)
				if len(engine.Weak(isolation(loose, []networkingv1.NetworkPolicy{*denyAll()}), spec)) <= 4 {
					t.Errorf("a Pod that is looser is not weaker: %+v", loose.Spec)
				}
			}
		})
	}
}

// Policies add up: one that lets something through opens what another one closes.
func TestNetworkAxis(t *testing.T) {
	policy := func(selects string, types ...networkingv1.PolicyType) networkingv1.NetworkPolicy {
		return networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "other"}, Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{podKey: selects}}, PolicyTypes: types}}
	}
	opens := func(selects string) networkingv1.NetworkPolicy {
		p := policy(selects, networkingv1.PolicyTypeEgress)
		p.Spec.Egress = []networkingv1.NetworkPolicyEgressRule{{}}
		return p
	}
	for name, tc := range map[string]struct {
		policies []networkingv1.NetworkPolicy
		level    engine.Level
		value    string
	}{
		"none": {nil, engine.NotEnforced, "denies less"},
		"ours": {[]networkingv1.NetworkPolicy{*denyAll()}, engine.RuntimeShaped, "none"},
		"half of ours": {[]networkingv1.NetworkPolicy{policy(podValue, networkingv1.PolicyTypeIngress)}, engine.NotEnforced,
			"denies less"},
		"another opens": {[]networkingv1.NetworkPolicy{*denyAll(), opens(podValue)}, engine.NotEnforced,
			"opened by NetworkPolicy other"},
		"one of others":   {[]networkingv1.NetworkPolicy{*denyAll(), opens("others")}, engine.RuntimeShaped, "none"},
		"another, closed": {[]networkingv1.NetworkPolicy{*denyAll(), policy(podValue)}, engine.RuntimeShaped, "none"},
	} {
		got := networkAxis(renderOne(t, func(*engine.Spec) {}), tc.policies)
		if got.Level != tc.level || !strings.Contains(got.Value, tc.value) {
			t.Errorf("%s: %+v, want %s, %q", name, got, tc.level, tc.value)
		}
	}
}

// A Pod is its owner's by a word that fits into a label, and a list has those of the owner, or those of others.
func TestOwner(t *testing.T) {
	of := map[string]string{"holon.ledger": "a"}
	for _, tc := range []struct {
		owner           string
		others, selects bool
	}{{"one", false, true}, {"one", true, false}, {"another home", false, false}, {"another home", true, true},
		{"", false, true}} {
		pod := renderOne(t, func(s *engine.Spec) { s.Labels = of })
		e := &Engine{options: Options{Owner: tc.owner}}
		s, err := labels.Parse(e.selector(of, tc.others))
		expect.NoError(t, err)
		expect.Equal(t, fmt.Sprintf("a Pod of one is selected by %q, others %v", tc.owner, tc.others),
			s.Matches(labels.Set(pod.Labels)), tc.selects)
	}
}

// A Pod keeps the restricted profile where one user is asked for, has no token, and no secret of the environment.
func TestRender(t *testing.T) {
	pod := renderOne(t, func(*engine.Spec) {})
	for _, c := range append(pod.Spec.InitContainers, pod.Spec.Containers...) {
		s := c.SecurityContext
		if !*s.RunAsNonRoot || *s.AllowPrivilegeEscalation || !*s.ReadOnlyRootFilesystem || len(s.Capabilities.Add) > 0 ||
			s.Capabilities.Drop[0] != "ALL" || s.SeccompProfile.Type != corev1.SeccompProfileTypeRuntimeDefault {
			t.Errorf("%s is not restricted: %+v", c.Name, s)
		}
	}
	if *pod.Spec.AutomountServiceAccountToken || pod.Spec.RestartPolicy != corev1.RestartPolicyNever {
		t.Errorf("token %v, restart %v", *pod.Spec.AutomountServiceAccountToken, pod.Spec.RestartPolicy)
	}
	data, err := pod.Marshal()
	expect.NoError(t, err)
	if bytes.Contains(data, []byte("secret")) {
		t.Error("the Pod shows the program's environment")
	}
	if !has(pod, map[string]string{"holon.run": "a b"}) || has(pod, map[string]string{"holon.run": "a"}) {
		t.Errorf("labels %v", pod.Annotations)
	}
	if name := pod.Name; name == "holon-run_01J" || name != podName("holon-run_01J") || name == podName("holon-run-01j") {
		t.Errorf("name %q", name)
	}
}

// Without the right to remove a Pod none is made.
func TestRights(t *testing.T) {
	var made atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review authorizationv1.SelfSubjectAccessReview
		if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Kind != "SelfSubjectAccessReview" {
			made.Add(1)
			http.Error(w, "no", http.StatusForbidden)
			return
		}
		asked := review.Spec.ResourceAttributes
		review.Status.Allowed = asked.Verb != "delete" && asked.Subresource != "exec"
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(review)
	}))
	defer server.Close()
	e, err := newEngine(Options{AgentdImage: "registry/agentd:1"}, &rest.Config{Host: server.URL}, "agents")
	expect.NoError(t, err)
	_, err = e.Create(t.Context(), engine.Spec{Name: "holon-run_01J", Image: "base", Args: []string{"/program"},
		User: &engine.User{UID: 1000, GID: 1001}})
	if !state.IsCode(err, engine.CodePermissionDenied) || !strings.Contains(err.Error(), "delete pods") {
		t.Errorf("got %v", err)
	}
	expect.Equal(t, "other requests", made.Load(), 0)
}

func TestTemplate(t *testing.T) {
	const head = "apiVersion: v1\nkind: Pod\n"
	for name, tc := range map[string]struct{ text, refused string }{
		"where it runs": {"metadata: {labels: {team: a}}\nspec: {nodeSelector: {pool: a}, containers: [{name: files, " +
			"resources: {limits: {memory: 1Gi}}}]}", ""},
		"host network": {"spec: {hostNetwork: true}", "spec.hostNetwork"},
		"host pid":     {"spec: {hostPID: true}", "spec.hostPID"},
		"host path":    {"spec: {volumes: [{name: a, hostPath: {path: /}}]}", "spec.volumes"},
		"token":        {"spec: {automountServiceAccountToken: true}", "spec.automountServiceAccountToken"},
		"privileged": {"spec: {containers: [{name: files, securityContext: {privileged: true}}]}",
			"spec.containers.securityContext"},
		"another":   {"spec: {containers: [{name: agent}]}", `"agent"`},
		"init":      {"spec: {initContainers: [{name: a}]}", "spec.initContainers"},
		"our label": {"metadata: {labels: {holon.pod: other}}", "holon.pod"},
		"our mark":  {"metadata: {annotations: {holon.made: now}}", "holon.made"},
		"apparmor": {"metadata: {annotations: {container.apparmor.security.beta.kubernetes.io/agent: unconfined}}",
			"apparmor"},
		"a second Pod":     {"spec: {}\n---\nspec: {hostPID: true}", "several documents"},
		"misspelt":         {"spec: {nodeSelectors: {}}", "nodeSelectors"},
		"namespace":        {"metadata: {namespace: other}", "metadata.namespace"},
		"security context": {"spec: {securityContext: {runAsUser: 0}}", "spec.securityContext"},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := open(t, head+tc.text)
			if tc.refused == "" {
				expect.NoError(t, err)
				expect.Equal(t, "pool", e.template.pod.Spec.NodeSelector["pool"], "a")
				return
			}
			typed, ok := errors.AsType[*engine.Error](err)
			if !ok || typed.Param != "kubernetes_pod" || typed.Hint == "" || !strings.Contains(typed.Message, tc.refused) {
				t.Errorf("error %v, want one about %s", err, tc.refused)
			}
		})
	}
}

func TestExit(t *testing.T) {
	now := time.Now()
	ended := func(code int32, reason string) corev1.PodStatus {
		return corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{{Name: agentName,
			State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: code, Reason: reason}}}}}
	}
	taintedStatus := corev1.PodStatus{Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, Reason: "DeletionByTaintManager", Message: "unreachable"}}}
	silentStatus := *taintedStatus.DeepCopy()
	silentStatus.Conditions = append(silentStatus.Conditions,
		corev1.PodCondition{Type: corev1.PodReady, Status: corev1.ConditionFalse},
		corev1.PodCondition{Type: corev1.ContainersReady, Status: corev1.ConditionTrue})
	silentSince := func(since time.Time) corev1.PodStatus {
		s := *silentStatus.DeepCopy()
		s.Conditions = s.Conditions[1:]
		s.Conditions[0].LastTransitionTime = metav1.NewTime(since)
		return s
	}
	evicted := corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "low on memory"}
	for name, tc := range map[string]struct {
		status  corev1.PodStatus
		deleted time.Time
		want    *engine.Exit
	}{
		"runs":          {corev1.PodStatus{Phase: corev1.PodRunning}, time.Time{}, nil},
		"code":          {ended(3, "Error"), time.Time{}, &engine.Exit{Code: 3}},
		"out of memory": {ended(137, "OOMKilled"), time.Time{}, &engine.Exit{Code: 137, OOMKilled: true}},
		"evicted":       {evicted, time.Time{}, &engine.Exit{Code: -1, Error: "Evicted: low on memory"}},
		"unknown": {ended(137, "ContainerStatusUnknown"), time.Time{},
			&engine.Exit{Code: -1, Error: "ContainerStatusUnknown"}},
		"being deleted": {corev1.PodStatus{Phase: corev1.PodRunning}, now, nil},
		"deleted by its node's silence": {silentStatus, now.Add(time.Hour),
			&engine.Exit{Code: -1, Error: "node n does not answer; DeletionByTaintManager: unreachable"}},
		"tainted": {taintedStatus, now.Add(time.Hour), nil},
		"silent":  {silentSince(now), time.Time{}, nil},
		"silent for long": {silentSince(now.Add(-2 * silentTime)), time.Time{},
			&engine.Exit{Code: -1, Error: "node n does not answer"}},
		"node lost": {corev1.PodStatus{Phase: corev1.PodRunning}, now.Add(-2 * lostTime),
			&engine.Exit{Code: -1, Error: "node n does not answer; the Pod was deleted"}},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: tc.status}
			if !tc.deleted.IsZero() {
				pod.DeletionTimestamp = &metav1.Time{Time: tc.deleted}
			}
			if got := exitOf(pod, now); (got == nil) != (tc.want == nil) || got != nil && *got != *tc.want {
				t.Errorf("exit %+v, want %+v", got, tc.want)
			}
		})
	}
}

// A handle of another cluster is not one of a Pod that is gone.
func TestOtherCluster(t *testing.T) {
	e, err := open(t, "")
	expect.NoError(t, err)
	h := engine.Handle{Version: 1, Engine: name, Name: "pod", ID: "uid.00000000.agents"}
	for _, err := range []error{e.Remove(t.Context(), h), e.Start(t.Context(), h)} {
		if typed, ok := errors.AsType[*engine.Error](err); !ok || typed.Code != engine.CodeUnreachable {
			t.Errorf("error %v, want that it is in another cluster", err)
		}
	}
}

// agentd is not sent where the Pod has the same, and what is to be started is sent whole.
func TestPack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "agentd")
	expect.NoError(t, os.WriteFile(file, []byte("x"), 0o755))
	const sum = "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
	for _, tc := range []struct {
		sum  string
		kind byte
	}{{sum, tar.TypeLink}, {"other", tar.TypeReg}} {
		var out bytes.Buffer
		expect.NoError(t, pack(t.Context(), &out, engine.Spec{Args: []string{"/a"},
			Mounts: []engine.Mount{{Source: file, Target: "/agentd"}}}, tc.sum))
		tr := tar.NewReader(&out)
		first, err := tr.Next()
		expect.NoError(t, err)
		expect.Equal(t, "first", first.Name, beneath+startFile)
		text, err := io.ReadAll(tr)
		expect.NoError(t, err)
		expect.Equal(t, "start", string(text), `{"args":["/a"],"env":null}`)
		second, err := tr.Next()
		expect.NoError(t, err)
		expect.Equal(t, "kind", second.Typeflag, tc.kind)
	}
}

// A node tries again what a registry did not refuse.
func TestMayPullYet(t *testing.T) {
	for why, want := range map[string]bool{
		"ErrImagePull: dial tcp: connection refused":                        true,
		"ImagePullBackOff: Back-off pulling image: 503 Service Unavailable": true,
		"ErrImagePull: docker.io/library/x:1: not found":                    false,
		"ErrImagePull: pull access denied":                                  false,
		"ErrImageNeverPull: Container image is not present":                 false,
	} {
		err := waiting(&corev1.Pod{}, agentName, "x", &corev1.ContainerStateWaiting{
			Reason: strings.Split(why, ":")[0], Message: strings.SplitN(why, ": ", 2)[1]})
		expect.Equal(t, why, mayPullYet(err), want)
	}
	expect.Equal(t, "no error", mayPullYet(nil), false)
}
