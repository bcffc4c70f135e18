package security

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/runner/agent/tools"
	"holon/test/expect"
	"holon/test/load"
)

// plant writes the sentinel, of which the text of the command is no part.
const plant = `printf 'sentinel-5d1e%sc22\n' 7`

// probe looks for the sentinel and for sockets wherever a child can look, and says so in its home.
const probe = search + ` > /holon/workspaces/agent_home/said 2>&1; ls -A /holon/workspaces /holon/objects > ` +
	`/holon/workspaces/agent_home/seen; find / -type s -not -path '/proc/*' > /holon/workspaces/agent_home/sockets`

// A child sees neither the home, trees, sockets nor tokens of its parent or of a sibling, nor its parent those of it.
func TestChildren(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	spawn := func(word string) object {
		return object{"tool": tools.NameSpawn, "arguments": object{"initial_message": "Do " + word + "."}}
	}
	a := l.serveAgents(nil, map[string]object{
		"hide": shell(plant + " > /holon/workspaces/agent_home/secret; " + plant + " > /tmp/secret; ls -A .holon"),
		"look": shell(search + "; ls -A /holon/workspaces/agent_home/.holon"),
		"sibling": shell(plant + " > /holon/workspaces/agent_home/secret; " + plant +
			" > /tmp/secret; cd /holon/workspaces/agent_home; touch ready; until [ -e go ]; do sleep 0.1; done"),
		"probe": shell(probe), "spawn-one": spawn("sibling"), "spawn-two": spawn("probe"),
	}, "first")
	a.ask("first", "hide")
	a.ask("first", "spawn-one")
	sibling := a.child("first", "ready")
	a.ask("first", "spawn-two")
	home := a.child("first", "sockets")
	said := string(must(os.ReadFile(filepath.Join(home, "said")))(t))
	expect.Equal(t, "what a child finds", said, "over\n")
	seen := string(must(os.ReadFile(filepath.Join(home, "seen")))(t))
	expect.Equal(t, "the trees and objects that a child sees", seen, "/holon/objects:\n\n/holon/workspaces:\nagent_home\n")
	t.Logf("sockets:\n%s", must(os.ReadFile(filepath.Join(home, "sockets")))(t))
	if said := a.ask("first", "look"); strings.Count(said, "/secret") != 2 {
		t.Errorf("the parent finds more than its own two files: %s", said)
	}
	a.apart()
	expect.NoError(t, os.WriteFile(filepath.Join(sibling, "go"), nil, 0o644))
}

// child waits until a child of an agent has a file in its home, and returns the home.
func (a *agents) child(parent, file string) string {
	a.t.Helper()
	var found []string
	err := load.Eventually(a.t.Context(), load.Patience, func() (err error) {
		found, err = filepath.Glob(filepath.Join(a.home.AgentPrivateDir(parent), "children/*", file))
		if err == nil && len(found) == 0 {
			err = fmt.Errorf("no child of %s has %s\n%s", parent, file, a.Tail())
		}
		return err
	})
	expect.NoError(a.t, err)
	return filepath.Dir(found[0])
}

// apart checks that no container has a directory of the state home mounted that another one has too, or that holds one
// of another's, but for the part of a home that is covered.
func (a *agents) apart() {
	a.t.Helper()
	ids := must(load.Containers(a.t.Context(), a.home.Dir(), ""))(a.t)
	var sources [][]string
	for _, id := range ids {
		out, err := exec.Command("docker", "inspect", "--format", "{{range .Mounts}}{{.Source}}\n{{end}}", id).Output()
		if err == nil { // else it has ended
			sources = append(sources, strings.Fields(string(out)))
		}
	}
	for i, mine := range sources {
		for j, others := range sources {
			for _, m := range mine {
				for _, o := range others {
					hidden := strings.Contains(strings.TrimPrefix(o, m), "/.holon/")
					if i != j && strings.HasPrefix(m, a.home.Dir()) && (m == o || strings.HasPrefix(o, m+"/") && !hidden) {
						a.t.Errorf("%s is mounted for another agent, and %s is in it", m, o)
					}
				}
			}
		}
	}
	if len(sources) < 2 {
		a.t.Errorf("there are %d containers to compare", len(sources))
	}
}
