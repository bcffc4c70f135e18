package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"holon/test/programs"
)

// OpenAI's client for Go: the release of go.mod, and the old one whose reader
// of streams is the strictest.
func TestOpenAIGo(t *testing.T) {
	s := serve(t, "--concurrency", "4")
	for _, release := range []struct {
		name    string
		program func(*testing.T) string
	}{
		{"present", func(*testing.T) string { return programs.Must("gosdk") }},
		{"3.8.1", oldClient},
	} {
		t.Run(release.name, func(t *testing.T) {
			program := release.program(t)
			t.Run("tcp", func(t *testing.T) { checks(t, "", program, s.tcp, "scripted/clients") })
			t.Run("unix", func(t *testing.T) {
				checks(t, "", program, "http://agentd/v1", "scripted/clients", s.socket)
			})
		})
	}
}

// oldClient builds the client with the old release. That takes a minute and shows little that the present one does
// not, so the fast tier leaves it out.
func oldClient(t *testing.T) string {
	if testing.Short() {
		t.Skip("full tier: a second release of the same client")
	}
	old := filepath.Join("testdata", "openai-go-3.8.1.mod")
	if out, err := exec.Command("go", "mod", "download", "-modfile", old).CombinedOutput(); err != nil {
		t.Skipf("the old release cannot be fetched, so it is not checked: %v\n%s", err, out)
	}
	program := filepath.Join(t.TempDir(), "gosdk")
	build := exec.Command("go", "build", "-modfile", old, "-tags", "openai381", "-o", program,
		"holon/test/programs/gosdk")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the client: %v\n%s", err, out)
	}
	return program
}

func TestOpenAINode(t *testing.T) { onNode(t, "openai.mjs") }

func TestAISDK(t *testing.T) { onNode(t, "ai.mjs") }

func onNode(t *testing.T, program string) {
	t.Helper()
	installNode(t)
	s := serve(t, "--concurrency", "4")
	t.Run("tcp", func(t *testing.T) { checks(t, "node", "node", program, s.tcp, "scripted/clients") })
	t.Run("unix", func(t *testing.T) {
		checks(t, "node", "node", program, "http://agentd/v1", "scripted/clients", s.socket)
	})
}

// installNode puts the packages of the lock file into node/node_modules, unless
// they are there.
func installNode(t *testing.T) {
	t.Helper()
	for _, program := range []string{"node", "npm"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("there is no %s", program)
		}
	}
	if err := exec.Command("node", "-e",
		"process.exit(process.versions.node.split('.')[0] < 20 ? 1 : 0)").Run(); err != nil {
		t.Skipf("these clients need Node 20 or newer: %v", err)
	}
	lock, err := os.ReadFile(filepath.Join("node", "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	stamp := filepath.Join("node", "node_modules", ".installed") // the lock file that it was installed from
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, lock) {
		return
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts")
	cmd.Dir = "node"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Skipf("the packages cannot be installed, so these clients are not checked: npm ci: %v\n%s", err, out)
	}
	if err := os.WriteFile(stamp, lock, 0o600); err != nil {
		t.Fatal(err)
	}
}

// checks runs a program that prints a line of JSON a check, and makes each a
// subtest.
func checks(t *testing.T, dir, program string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	n, done := 0, -1
	for line := range bytes.Lines(out) {
		var got struct {
			Check, Error string
			Done         *int
		}
		if err := json.Unmarshal(line, &got); err != nil {
			t.Errorf("%v: %.300s", err, line)
			continue
		}
		if got.Done != nil {
			done = *got.Done
			continue
		}
		n++
		t.Run(got.Check, func(t *testing.T) {
			if got.Error != "" {
				t.Error(got.Error)
			}
		})
	}
	if err != nil || n == 0 || n != done {
		t.Errorf("%s made %d checks of %d: %v", fmt.Sprint(program, args), n, done,
			errors.Join(err, errors.New(stderr.String())))
	}
}
