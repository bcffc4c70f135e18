// Package e2e runs the built programs as a user does, against a real Docker
// engine, and looks at what they leave behind.
//
// Every test has a state home of its own; when the test is over, no container,
// socket or session directory of that home may exist (home.checkNothingLeft).
// Scenarios of the scripted model are in testdata.
//
// It is skipped, with a message, where no engine answers or the base image was
// not made (make image).
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

const baseImage = "holon/base:latest"

// programs is where TestMain built holon and agentd.
var programs string

func TestMain(m *testing.M) {
	code, err := run(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		code = 1
	}
	os.Exit(code)
}

func run(m *testing.M) (code int, err error) {
	if err := exec.Command("docker", "image", "inspect", baseImage).Run(); err != nil {
		fmt.Printf("e2e: skipped: no Docker engine answers, or it has no image %s (make image): %v\n", baseImage, err)
		return 0, nil
	}
	if programs, err = os.MkdirTemp("", "holon-e2e-bin-"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(programs)
	build := exec.Command("go", "build", "-trimpath", "-o", programs+string(filepath.Separator), "holon/cmd/agentd",
		"holon/cmd/holon")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return 1, fmt.Errorf("build the programs: %w\n%s", err, out)
	}
	return m.Run(), nil
}
