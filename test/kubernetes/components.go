package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// The cluster has a network namespace of its own, so that its ports and addresses are always the same ones.
const (
	nodeName  = "node"
	nodeIP    = "10.10.0.1"
	serviceIP = "10.96.0.1" // of the Service kubernetes
	podRange  = "10.20.0.0/16"
	apiPort   = "443"
)

// component is a program of the cluster and its arguments, in the order in which they start.
type component struct {
	name   string
	socket string // NETWORK:ADDRESS that the next ones need, or ""
	args   []string
}

// components returns the programs of a cluster whose files are in dir.
func components(dir, cgroup string) []component {
	in := func(name string) string { return filepath.Join(dir, name) }
	return []component{
		{"etcd", "tcp:127.0.0.1:2379", []string{"--data-dir=" + in("etcd"), "--log-level=error",
			"--listen-client-urls=http://127.0.0.1:2379", "--advertise-client-urls=http://127.0.0.1:2379",
			"--listen-peer-urls=http://127.0.0.1:2380"}},
		{"containerd", "unix:" + in("containerd.sock"), []string{"--config=" + in("containerd.toml")}},
		{"kube-apiserver", "tcp:127.0.0.1:" + apiPort, []string{"--etcd-servers=http://127.0.0.1:2379", "--bind-address=0.0.0.0",
			"--secure-port=" + apiPort, "--advertise-address=" + nodeIP, "--service-cluster-ip-range=10.96.0.0/24",
			"--tls-cert-file=" + in("server.crt"), "--tls-private-key-file=" + in("server.key"),
			"--client-ca-file=" + in("ca.crt"), "--service-account-issuer=https://kubernetes.default.svc",
			"--service-account-signing-key-file=" + in("accounts.key"),
			"--service-account-key-file=" + in("accounts.key"),
			"--kubelet-client-certificate=" + in("apiserver.crt"), "--kubelet-client-key=" + in("apiserver.key"),
			"--kubelet-certificate-authority=" + in("ca.crt"), "--kubelet-preferred-address-types=InternalIP",
			"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction", "--allow-privileged=true",
			"--default-unreachable-toleration-seconds=5", "--default-not-ready-toleration-seconds=5"}},
		{"kube-controller-manager", "", []string{"--kubeconfig=" + in("controllers.kubeconfig"), "--leader-elect=false",
			"--service-account-private-key-file=" + in("accounts.key"), "--root-ca-file=" + in("ca.crt"),
			"--use-service-account-credentials", "--node-monitor-grace-period=20s", "--node-monitor-period=2s",
			"--secure-port=0"}},
		{"kube-scheduler", "", []string{"--kubeconfig=" + in("scheduler.kubeconfig"), "--leader-elect=false",
			"--secure-port=0"}},
		{"kubelet", "", []string{"--config=" + in("kubelet.yaml"), "--kubeconfig=" + in("kubelet.kubeconfig"),
			"--hostname-override=" + nodeName, "--node-ip=" + nodeIP, "--cgroup-root=" + cgroup}},
	}
}

// configure writes certificates, kubeconfigs (admin.kubeconfig is for the tests, at the URL given) and settings.
func configure(dir, url string) error {
	a, err := newAuthority(dir)
	if err != nil {
		return fmt.Errorf("make a certificate authority: %w", err)
	}
	for _, name := range []string{"server", "accounts", "apiserver", "kubeletserver"} {
		// The server's own certificate is also what it shows to the kubelet, which authorizes it as an administrator.
		if err := a.issue(name, name, "system:masters"); err != nil {
			return fmt.Errorf("make the certificate of %s: %w", name, err)
		}
	}
	inside := "https://127.0.0.1:" + apiPort
	for _, client := range []struct{ name, user, group, url string }{
		{"admin", "admin", "system:masters", url},
		{"controllers", "system:kube-controller-manager", "", inside},
		{"scheduler", "system:kube-scheduler", "", inside},
		{"kubelet", "system:node:" + nodeName, "system:nodes", inside},
	} {
		if err := a.kubeconfig(client.name, client.user, client.group, client.url); err != nil {
			return fmt.Errorf("make the kubeconfig of %s: %w", client.name, err)
		}
	}
	for name, text := range map[string]string{
		"containerd.toml": containerdConfig, "kubelet.yaml": kubeletConfig, "cni/10-ptp.conflist": cniConfig,
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
			return err
		}
	}
	return nil
}

const containerdConfig = `version = 2
root = "DIR/containerd"
state = "/run/containerd/state"
[grpc]
  address = "DIR/containerd.sock"
[plugins."io.containerd.grpc.v1.cri"]
  restrict_oom_score_adj = true # a container may have no capability to lower its score
  sandbox_image = "holon-test/pause:latest"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "DIR/cni"
`

// cniConfig gives a Pod an address and a way to the node. No plugin enforces a NetworkPolicy.
const cniConfig = `{"cniVersion": "0.4.0", "name": "test", "plugins": [{"type": "ptp", "ipam": {"type": "host-local",
"dataDir": "/var/lib/cni/networks", "ranges": [[{"subnet": "` + podRange + `"}]], "routes": [{"dst": "0.0.0.0/0"}]}}]}
`

// kubeletConfig works with the first version of cgroups too, never reclaims disk of the machine, and renews its lease
// so often that a node that is gone is noticed soon.
const kubeletConfig = `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: ` + nodeIP + `
tlsCertFile: DIR/kubeletserver.crt
tlsPrivateKeyFile: DIR/kubeletserver.key
authentication:
  x509: {clientCAFile: DIR/ca.crt}
containerRuntimeEndpoint: unix://DIR/containerd.sock
cgroupDriver: cgroupfs
failCgroupV1: false
failSwapOn: false
enforceNodeAllocatable: [none]
evictionHard: {memory.available: 0%, nodefs.available: 0%, nodefs.inodesFree: 0%, imagefs.available: 0%, imagefs.inodesFree: 0%}
imageGCHighThresholdPercent: 100
nodeLeaseDurationSeconds: 12
resolvConf: ""
volumePluginDir: DIR/plugins
healthzPort: 0
`
