package process

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Whichever thread starts a command, the orphans of it come to the first one:
// this is what lets the end of a command look at that alone.
func TestOrphansComeToTheFirstThread(t *testing.T) {
	s := newTest(t)
	const n = 8
	dir := t.TempDir()
	all := make([]*Process, n)
	var ready, done sync.WaitGroup
	ready.Add(n)
	for i := range all {
		done.Go(func() {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			ready.Done()
			ready.Wait() // every goroutine has a thread of its own by now
			c := sh(hide + fmt.Sprintf("hide $D/%d; echo up; exec sleep 300", i))
			c.Env = Environ(os.Environ(), "D="+dir)
			var err error
			if all[i], err = s.Start(c); err != nil {
				t.Error(err)
			}
		})
	}
	done.Wait()
	leaders := make(map[int]bool)
	for _, p := range all {
		awaitOutput(t, p, "up")
		leaders[p.Pid()] = true
	}
	isLeader := func(pid int) bool { return leaders[pid] }
	children, ok1 := ownChildren()
	first, ok2 := adopted()
	if !ok1 || !ok2 {
		t.Skip("the kernel does not list children")
	}
	started := len(first)
	children, first = slices.DeleteFunc(children, isLeader), slices.DeleteFunc(first, isLeader)
	slices.Sort(children)
	slices.Sort(first)
	if len(children) < n || !slices.Equal(children, first) {
		t.Errorf("the orphans %v came to us and %v of them to the first thread", children, first)
	}
	if started-len(first) == n {
		t.Error("every command was started by the first thread, so this showed nothing")
	}
	for _, p := range all {
		p.Kill()
		p.Result()
	}
	for i := range all {
		if alive(t, filepath.Join(dir, fmt.Sprint(i))) {
			t.Errorf("the orphan of command %d lives on", i)
		}
	}
}

// victimVar makes this test binary a supervisor with a command, to be killed.
const victimVar = "HOLON_TEST_VICTIM"

// serveVictim starts a command whose processes hide, tells that it runs and
// waits for its own end.
func serveVictim(dir string) error {
	s := New(Options{Exclusive: true})
	defer s.Close()
	c := sh(hide + "hide $D/hidden; echo $$ >$D/leader; echo up; exec sleep 300")
	c.Env = Environ(os.Environ(), "D="+dir)
	p, err := s.Start(c)
	if err != nil {
		return err
	}
	for {
		if out, _ := p.Snapshot(); strings.Contains(string(out.Head), "up") {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	fmt.Println("up")
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// What a supervisor leaves that is killed is in control groups with its name;
// the next one ends it.
func TestGroupsOfAKilledSupervisorAreEnded(t *testing.T) {
	g, err := openGroups()
	if err != nil {
		t.Skip("there are no control groups here: ", err)
	}
	parent := filepath.Dir(g.dir)
	if err := g.close(); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	victim := exec.Command(self)
	victim.Env = append(os.Environ(), victimVar+"="+dir)
	victim.Stderr = os.Stderr
	in, err1 := victim.StdinPipe()
	out, err2 := victim.StdoutPipe()
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	defer in.Close()
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "up\n" {
		t.Fatalf("the other supervisor says %q, %v", line, err)
	}
	_ = victim.Process.Kill()
	_ = victim.Wait() // killed
	for _, name := range []string{"leader", "hidden"} {
		if !alive(t, filepath.Join(dir, name)) {
			t.Fatalf("the %s process ended with its supervisor, so this shows nothing", name)
		}
	}
	of := fmt.Sprintf("-%d-", victim.Process.Pid)
	groups := func() (found []string) {
		all, err := filepath.Glob(filepath.Join(parent, groupPrefix+"*"+of+"*"))
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	if len(groups()) != 1 {
		t.Fatalf("the groups left behind are %v", groups())
	}

	s := newTest(t)
	deadline := time.Now().Add(30 * time.Second)
	for alive(t, filepath.Join(dir, "leader")) || alive(t, filepath.Join(dir, "hidden")) {
		if time.Now().After(deadline) {
			t.Fatal("what the killed supervisor left lives on")
		}
		time.Sleep(5 * time.Millisecond)
	}
	run(t, s, sh("true"))
	// The directory stays while something dies in it, until the next start.
	if err := newTest(t).Close(); err != nil {
		t.Error(err)
	}
	if left := groups(); len(left) > 0 {
		t.Errorf("the groups %v are left", left)
	}
}
