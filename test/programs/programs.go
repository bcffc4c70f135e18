// Package programs finds the programs that tests start: agentd and holon, and below this directory small programs
// that run in a container or against a server. All come from one build, so that a test starts what a user starts.
package programs

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Variable names the directory that `make programs` filled, bin of the module. `make test` sets it. A test that
// runs without it runs `make programs` itself.
const Variable = "HOLON_TEST_BIN"

// Path returns the path of a program: "agentd", "holon", or the name of a directory below this one.
func Path(name string) (string, error) {
	dir, err := directory()
	if err != nil {
		return "", err
	}
	if name != "agentd" && name != "holon" {
		dir = filepath.Join(dir, "test")
	}
	path := filepath.Join(dir, name)
	// The go command notes which files a test looks at: a new program makes a result of the old one stale.
	if _, err := os.Stat(path); err != nil {
		return "", fmt.Errorf("find the program %s: %w; run `make programs`", name, err)
	}
	return path, nil
}

// Must is Path for a TestMain and for a test alike; it panics where the program is missing.
func Must(name string) string {
	path, err := Path(name)
	if err != nil {
		panic(err)
	}
	return path
}

var directory = sync.OnceValues(func() (string, error) {
	if dir := os.Getenv(Variable); dir != "" {
		return dir, nil
	}
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	root := filepath.Dir(strings.TrimSpace(string(out)))
	lock, err := os.OpenFile(filepath.Join(root, "Makefile"), os.O_RDONLY, 0) // tests of several packages build at once
	if err != nil {
		return "", fmt.Errorf("lock the build: %w", err)
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", fmt.Errorf("lock the build: %w", err)
	}
	build := exec.Command("make", "--silent", "--directory", root, "programs")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return filepath.Join(root, "bin"), nil
})

// Copy puts a program into a file of the test's own, where another user or a container finds it.
func Copy(name, target string) error {
	path, err := Path(name)
	if err != nil {
		return err
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(target, data, 0o755)
	}
	if err != nil {
		return fmt.Errorf("copy the program %s: %w", name, err)
	}
	return nil
}
