package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"holon/runner"
	"holon/test/buckettest"
	"holon/test/expect"
	"holon/test/postgrestest"
)

// values are those of the chart for a cluster of .ci/with-kubernetes. Pods of agents may be on a node that takes no
// others, and have the image that it names.
const values = `
image: holon-test/holon:test
store: {url: "s3://holon/files?endpoint=http://10.10.0.1:9000&region=us-east-1&insecure=true", secret: holon-store}
home: {size: 1Gi, storageClass: test}
token: {others: true}
model: scripted//var/lib/holon/answers.yaml
modelSecrets: [holon-models]
agents:
  image: %s
  spec: {tolerations: [{key: node.kubernetes.io/unschedulable, operator: Exists}]}
env: {HOLON_IDLE_PAUSE: 1h, HOLON_IDLE_STOP: 1h, HOLON_MEMORY: 256m, HOLON_CPUS: "0.5"}
resources: {requests: {cpu: 50m, memory: 128Mi}}
`

// volume is the home of a replica.
const volume = `
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  storageClassName: test
  capacity: {storage: 1Gi}
  accessModes: [ReadWriteOnce]
  hostPath: {path: %[2]s}
---`

// deployment is holon serve in a cluster, as the guide has it.
type deployment struct {
	*cluster
	guide    []string // its blocks of commands
	env      []string
	database string
}

// deploy prepares all that the guide takes for granted.
func deploy(t *testing.T) *deployment {
	d := &deployment{cluster: newCluster(t)}
	text, err := os.ReadFile("../../docs/guides/kubernetes.md")
	expect.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "\n## holon serve in the cluster\n")
	section, _, _ = strings.Cut(section, "\n## ")
	for _, block := range strings.Split(section, "\n```sh\n")[1:] {
		commands, _, _ := strings.Cut(block, "\n```\n")
		d.guide = append(d.guide, commands)
	}
	if len(d.guide) != 4 {
		t.Fatalf("the guide has %d blocks of commands, want 4:\n%s", len(d.guide), section)
	}
	tools, err := exec.CommandContext(t.Context(), "../../.ci/kubetools").Output()
	expect.NoError(t, err)
	d.env = append(os.Environ(), "PATH="+strings.TrimSpace(string(tools))+":"+os.Getenv("PATH"),
		"AWS_ACCESS_KEY_ID="+buckettest.ID, "AWS_SECRET_ACCESS_KEY="+buckettest.Secret, "PGPASSWORD=none", "OPENAI_API_KEY=none")
	stages := "for stage in build build-holon holon; do docker " // the classic builder leaves each as an image
	d.sh(stages + "build -q --tag holon-test/$stage:test --target $stage --build-arg AGENTD=prebuilt " +
		"--build-arg GO_IMAGE=holon/base:latest .; done")
	t.Cleanup(func() { expect.NoError(t, exec.Command("bash", "-c", stages+"rmi holon-test/$stage:test; done").Run()) })
	d.Ask("load holon-test/holon:test")

	server, bucket := postgrestest.New(t), buckettest.New(t)
	d.database = server.Database(t)
	d.Ask("expose 5432 " + server.Socket())
	d.Ask("expose 9000 " + relay(t, bucket.Address()))
	var volumes strings.Builder
	for _, name := range []string{"one", "two"} {
		dir := t.TempDir()
		expect.NoError(t, os.WriteFile(filepath.Join(dir, "answers.yaml"), []byte("rounds: [{text: It is done.}]"), 0o644))
		expect.NoError(t, os.Chmod(dir, 0o777)) // what a Pod mounts of its node does not get its group
		fmt.Fprintf(&volumes, volume, name, dir)
	}
	d.kubectl(volumes.String(), "apply", "-f", "-")
	chosen := filepath.Join(t.TempDir(), "values.yaml")
	expect.NoError(t, os.WriteFile(chosen, fmt.Appendf(nil, values, d.base), 0o644))
	free, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	_, port, _ := strings.Cut(free.Addr().String(), ":")
	expect.NoError(t, free.Close())
	_, name, _ := strings.Cut(strings.TrimPrefix(d.database, "postgres://"), "/")
	name, _, _ = strings.Cut(name, "?")
	for i, block := range d.guide {
		d.guide[i] = strings.NewReplacer("deploy/kubernetes/example.yaml", chosen, "db.example.org/holon", "10.10.0.1/"+name,
			"service/holon 7878", "service/holon "+port+":7878", "127.0.0.1:7878", "127.0.0.1:"+port).Replace(block)
	}
	return d
}

// sh runs commands in the repository and returns what they print on standard output. What is left in the background ends.
func (d *deployment) sh(commands string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "-euc", "trap 'kill $(jobs -p) 2>/dev/null || true' EXIT\n"+commands)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = "../..", d.env, &stdout, &stderr
	if err := cmd.Run(); err != nil {
		d.t.Fatalf("%s\n%v\n%s%s%s", commands, err, stdout.String(), stderr.String(), d.state())
	}
	return stdout.String()
}

// kubectl runs kubectl in the namespace.
func (d *deployment) kubectl(stdin string, args ...string) string {
	d.t.Helper()
	ctx, cancel := context.WithTimeout(d.t.Context(), 2*patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "env", append([]string{"kubectl", "--namespace", "holon"}, args...)...)
	var stderr bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stderr = d.env, strings.NewReader(stdin), &stderr
	out, err := cmd.Output()
	if err != nil {
		d.t.Fatalf("kubectl %s: %v\n%s%s", args, err, stderr.String(), d.state())
	}
	return string(out)
}

// state is what the cluster has of the deployment, for the log of a test that failed.
func (d *deployment) state() string {
	cmd := exec.Command("sh", "-c", "kubectl -n holon get all -o wide; kubectl -n holon get events --sort-by .metadata.creationTimestamp; "+
		"kubectl -n holon logs -l app.kubernetes.io/name=holon --prefix --tail 40")
	cmd.Env = d.env
	out, _ := cmd.CombinedOutput() // it says what it can
	return string(out)
}

// relay listens on a Unix socket for an address.
func relay(t *testing.T, address string) string {
	dir, err := os.MkdirTemp("", "re")
	expect.NoError(t, err)
	t.Cleanup(func() { expect.NoError(t, os.RemoveAll(dir)) })
	listener, err := net.Listen("unix", filepath.Join(dir, "s"))
	expect.NoError(t, err)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", address)
			if err != nil {
				_ = from.Close()
				continue
			}
			for _, pair := range [][2]net.Conn{{from, to}, {to, from}} {
				go func() {
					_, _ = io.Copy(pair[0], pair[1])
					_ = pair[0].Close()
				}()
			}
		}
	}()
	return listener.Addr().String()
}

// prompt gives an agent something to do, through the Service, as the guide does.
func (d *deployment) prompt(agent string) {
	d.t.Helper()
	if answer := d.sh(strings.Replace(d.guide[1], "agent/main", "agent/"+agent, 1)); !strings.Contains(answer, "It is done.") {
		d.t.Fatalf("agent %s answers %s\n%s", agent, answer, d.state())
	}
}

// holder is the replica that has the lease of an agent, "" if none has.
func (d *deployment) holder(agent string) string {
	d.t.Helper()
	conn, err := pgx.Connect(d.t.Context(), d.database)
	expect.NoError(d.t, err)
	defer conn.Close(d.t.Context())
	var socket string
	_ = conn.QueryRow(d.t.Context(), "SELECT address FROM leases JOIN holders ON id = holder WHERE agent_id = $1",
		agent).Scan(&socket) // there may be none
	return strings.TrimSuffix(filepath.Base(socket), ".sock")
}

// pod is the Pod of an agent.
type pod struct{ UID, Owner string }

// pods are those of agents, by the agent, in the order in which they are listed.
func (d *deployment) pods() map[string][]pod {
	d.t.Helper()
	var list struct {
		Items []struct {
			Metadata struct {
				UID                 string
				Labels, Annotations map[string]string
			}
		}
	}
	expect.NoError(d.t, json.Unmarshal([]byte(d.kubectl("", "get", "pods", "-l", "holon.pod=agent", "-o", "json")), &list))
	found := map[string][]pod{}
	for _, p := range list.Items {
		var labels map[string]string
		expect.NoError(d.t, json.Unmarshal([]byte(p.Metadata.Annotations["holon.labels"]), &labels))
		agent := labels[runner.LabelAgent]
		found[agent] = append(found[agent], pod{p.Metadata.UID, p.Metadata.Labels["holon.owner"]})
	}
	return found
}

// leave makes a Pod like that of an agent, of a home that had the agent before and is no more.
func (d *deployment) leave(agent string) {
	d.t.Helper()
	var list struct{ Items []map[string]any }
	expect.NoError(d.t, json.Unmarshal([]byte(d.kubectl("", "get", "pods", "-l", "holon.agent="+agent, "-o", "json")), &list))
	of := list.Items[0]["metadata"].(map[string]any)
	labels, annotations := of["labels"].(map[string]any), of["annotations"].(map[string]any)
	annotations["holon.labels"] = strings.Replace(annotations["holon.labels"].(string),
		fmt.Sprintf(`"holon.fence":"%s"`, labels[runner.LabelFence]), `"holon.fence":"1"`, 1)
	labels[runner.LabelFence], labels["holon.owner"] = "1", "dead"
	data, err := json.Marshal(map[string]any{"apiVersion": "v1", "kind": "Pod",
		"metadata": map[string]any{"name": "left-of-" + agent, "labels": labels, "annotations": annotations},
		"spec": map[string]any{"containers": []any{map[string]any{"name": "agent", "image": d.base,
			"command": []string{"sleep", "infinity"}}}}})
	expect.NoError(d.t, err)
	d.kubectl(string(data), "create", "-f", "-")
}

// kill ends a replica as if its node had lost power.
func (d *deployment) kill(replica, token string) {
	d.t.Helper()
	environs, err := filepath.Glob("/proc/[0-9]*/environ")
	expect.NoError(d.t, err)
	killed := 0
	for _, path := range environs {
		text, _ := os.ReadFile(path) // it may have ended
		env := "\x00" + string(text)
		var pid int
		if strings.Contains(env, "\x00POD_NAME="+replica+"\x00") && strings.Contains(env, token) {
			if _, err := fmt.Sscanf(path, "/proc/%d/", &pid); err == nil && syscall.Kill(pid, syscall.SIGKILL) == nil {
				killed++
			}
		}
	}
	if killed == 0 {
		d.t.Fatalf("%s does not run", replica)
	}
	d.kubectl("", "delete", "pod", replica, "--grace-period=0", "--force")
}

// Two replicas, whose homes have one path, have agents with Pods in one namespace. When one is killed the other one goes
// on with its agent, and removes the Pod that is left. Neither of them touches a Pod of the other, also when that comes
// back.
func TestKubernetesServe(t *testing.T) {
	d := deploy(t)
	d.sh(d.guide[0])
	d.kubectl("", "rollout", "status", "statefulset/holon", "--timeout=3m")
	for _, n := range []string{"0", "1"} {
		d.kubectl("", "exec", "holon-"+n, "--", "holon", "agent", "create", "agent"+n)
		d.prompt("agent" + n)
		expect.Equal(t, "replica that runs agent"+n, d.holder("agent"+n), "holon-"+n)
	}
	before := d.pods()
	for agent, list := range before {
		expect.Equal(t, "Pods of "+agent, len(list), 1)
	}
	living, dead := before["agent0"][0], before["agent1"][0]
	if living.Owner == dead.Owner {
		t.Fatalf("the Pods of two homes have one owner: %v", before)
	}
	d.leave("agent0")
	d.leave("agent1")
	await(t, "what a home left that is no more to be removed", func() bool {
		return !strings.Contains(d.kubectl("", "get", "pods", "-o", "name"), "left-of-")
	})
	expect.Equal(t, "Pods after a sweep of each replica", fmt.Sprint(d.pods()), fmt.Sprint(before))

	d.kubectl("", "cordon", "node")
	token := strings.TrimSpace(d.sh("kubectl -n holon get secret holon-token -o 'jsonpath={.data.token}' | base64 -d"))
	d.kill("holon-1", token)
	await(t, "the other replica to have the agent", func() bool { return d.holder("agent1") == "holon-0" })
	d.prompt("agent1")
	await(t, "the Pod of the dead replica to be removed", func() bool {
		list := d.pods()["agent1"]
		return len(list) == 1 && list[0] != dead && list[0].Owner == living.Owner
	})
	after := d.pods()
	expect.Equal(t, "the Pod of the living replica", fmt.Sprint(after["agent0"]), fmt.Sprint([]pod{living}))

	d.kubectl("", "uncordon", "node")
	d.kubectl("", "rollout", "status", "statefulset/holon", "--timeout=3m")
	for _, agent := range []string{"agent0", "agent1"} {
		d.prompt(agent)
	}
	expect.Equal(t, "Pods when the other one is back", fmt.Sprint(d.pods()), fmt.Sprint(after))
	if t.Failed() {
		t.Log(d.state())
	}
	if !strings.Contains(d.sh(d.guide[2]), "agent0") {
		t.Errorf("holon agent list does not name the agent")
	}
	d.sh(d.guide[3])
	if left := d.pods(); len(left) > 0 {
		t.Errorf("Pods are left: %v", left)
	}
}
