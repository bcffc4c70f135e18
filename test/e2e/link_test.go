package e2e

import (
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// inContainer runs a shell command in the one running container of the home, as the user of the agent's commands, in
// the working tree, and reports whether it succeeded.
func (h *home) inContainer(command string) bool {
	h.t.Helper()
	id := strings.TrimSpace(docker(h.t, "ps", "-q", "--filter", "label=holon.role=agent", "--filter",
		"label=holon.home="+h.dir))
	user := os.Geteuid()
	if user == 0 {
		user = 65532
	}
	return exec.CommandContext(h.t.Context(), "docker", "exec", "-u", strconv.Itoa(user), id, "sh", "-c",
		"cd /holon/workspaces/* && "+command).Run() == nil
}

// A run whose container shares no directory with the host is like another: its tools of the host, its result, and what
// is left when holon is killed and the run is attached to.
func TestStreamLink(t *testing.T) {
	t.Parallel()
	h, repo := newHome(t, "HOLON_LINK=stream"), repository(t, "echo a > a; mkdir d; echo b > d/b; ln -s d/b link")
	begin := func() *process {
		return h.begin(repo, "run", "--model", scripted(t, "pausing"), "--timeout", "5m", "count")
	}
	started := func() bool { return h.inContainer("test -e started") }

	p := begin()
	await(t, "the agent's command", started)
	expect.Equal(t, "the file is in the tree of the container", true, h.inContainer("grep -q b link && touch go"))
	if r := p.wait(); r.code != 0 || r.manifest.Status != state.StatusCompleted {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}

	p = begin()
	await(t, "the agent's command", started)
	p.kill()
	attached := h.begin(repo, "attach", "last")
	await(t, "the command to go on", func() bool { return h.inContainer("touch go") })
	r := attached.wait()
	if r.code != 0 || !strings.Contains(r.stdout, "It ended by itself.") {
		t.Fatalf("exit code %d\n%s%s", r.code, r.stdout, r.stderr)
	}
	patch := h.run(repo, "diff", "last")
	if strings.Count(patch.stdout, "+run\n") != 1 || !strings.Contains(patch.stdout, "+late\n") {
		t.Errorf("the change is not that of one run:\n%s", patch.stdout)
	}
}

// The disk quota of such a run ends its turn while it goes on, whatever its commands do about the measurement.
func TestStreamDisk(t *testing.T) {
	for _, model := range []string{"waiting", "unlinked", "inodes", "meddling"} {
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			h, repo := newHome(t, "HOLON_LINK=stream"), repository(t, "echo a > a")
			r := h.run(repo, "run", "--model", scripted(t, model), "--disk", "20m", "go on")
			if r.code != 1 || r.manifest == nil || r.manifest.Status != state.StatusIncomplete {
				t.Fatalf("exit code %d\n%s", r.code, r.stderr)
			}
			expect.Equal(t, "the code", r.failure(t).Code, "disk_quota")
			checkPartial(t, r, "")
			h.checkTidy()
		})
	}
}
