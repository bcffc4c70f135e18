package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"holon/runner/credentials"
	"holon/state"
)

// At a terminal a key is asked for, and the terminal does not show it.
func TestKeyIsNotShown(t *testing.T) {
	const key = "sk-sentinel-0123456789abcdef"
	binary := filepath.Join(t.TempDir(), "holon")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, ".").CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, out)
	}
	home := filepath.Join(t.TempDir(), "home")
	cmd := exec.CommandContext(t.Context(), binary, "credentials", "set", "openai")
	cmd.Env = append(os.Environ(), "HOLON_HOME="+home)
	terminal, err := pty.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	defer terminal.Close()
	if err := terminal.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	var shown bytes.Buffer
	buffer := make([]byte, 1024)
	asked := false
	for {
		n, err := terminal.Read(buffer)
		shown.Write(buffer[:n])
		if !asked && strings.Contains(shown.String(), "it is not shown") {
			asked = true
			if _, err := terminal.WriteString(key + "\n"); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil { // the program is gone
			break
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, shown.String())
	}
	if !asked || strings.Contains(shown.String(), "sentinel") {
		t.Errorf("the terminal shows %q", shown.String())
	}
	h, err := state.FindHome(home, "")
	if err != nil {
		t.Fatal(err)
	}
	if stored, err := credentials.StoreIn(h).Get("openai"); err != nil || stored.Reveal() != key {
		t.Errorf("%q, %v", stored.Reveal(), err)
	}
}
