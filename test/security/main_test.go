// Package security attacks what confines an agent, in real containers and by the
// way that every run goes: a scripted model calls a tool, the tool runs a program
// that tries what must not be possible, and the host collects what is left.
//
// Every test asserts the denial, its reason, and then that nothing is left: no
// container, process, mount, socket or session directory (lab.checkResidue).
// docs/explanation/security.md lists the tests; TestPage checks that it tells the truth.
//
// It is skipped, with a message, where no engine answers or the base image was
// not made (make image).
package security

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"holon/test/gittest"
	"holon/test/programs"
)

const baseImage = "holon/base:latest"

// input is a directory for containers, with the program probe.
var input string

func TestMain(m *testing.M) {
	gittest.Isolate()
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "security:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := exec.Command("docker", "image", "inspect", baseImage).Run(); err != nil {
		fmt.Printf("security: skipped: no Docker engine answers, or it has no image %s (make image): %v\n", baseImage,
			err)
		return 0, nil
	}
	if input, err = os.MkdirTemp("", "holon-sec-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(input)
	if err := programs.Copy("probe", filepath.Join(input, "probe")); err != nil {
		return 1, err
	}
	// The container's user may be another than ours.
	if err := os.Chmod(input, 0o755); err != nil {
		return 1, err
	}
	return m.Run(), nil
}
