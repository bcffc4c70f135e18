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
	"testing"
)

const baseImage = "holon/base:latest"

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
	return m.Run(), nil
}
