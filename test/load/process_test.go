package load

import (
	"holon/test/expect"
	"os"
	"os/exec"
	"slices"
	"testing"
)

func TestTree(t *testing.T) {
	cmd := exec.Command("sleep", "30")
	expect.NoError(t, cmd.Start())
	defer func() { _, _ = cmd.Process.Kill(), cmd.Wait() }()
	tree := Tree(os.Getpid())
	if !slices.Contains(tree, os.Getpid()) || !slices.Contains(tree, cmd.Process.Pid) {
		t.Errorf("%v lacks %d or %d", tree, os.Getpid(), cmd.Process.Pid)
	}
	if got := Tree(cmd.Process.Pid); len(got) != 1 {
		t.Errorf("sleep has children: %v", got)
	}
}

func TestUse(t *testing.T) {
	me := os.Getpid()
	switch r, p := Resident(me), Proportional(me); {
	case r < 1<<20:
		t.Errorf("r = %v, want at least %v", r, 1<<20)
	case p < 1<<19:
		t.Errorf("p = %v, want at least %v", p, 1<<19)
	case p > r+1<<20:
		t.Errorf("p = %v, want at most %v", p, r+1<<20)
	}
	before := Time([]int{me})
	for sum := 0; Time([]int{me}) <= before; sum++ { // ends when the time is counted
		_ = sum
	}
	if InContainers([]string{"no container has this id"}) != nil {
		t.Error("processes are found in a container that is not there")
	}
}
