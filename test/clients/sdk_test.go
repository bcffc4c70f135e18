package clients

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"holon/test/programs"
)

// OpenAI's client for Go: the release of go.mod, and the old one whose reader
// of streams is the strictest.
func TestOpenAIGo(t *testing.T) {
	t.Parallel()
	play(t, agentd(t), "unix", "", programs.Must("gosdk"))
}

func TestOpenAIGoOld(t *testing.T) {
	t.Parallel()
	play(t, agentd(t), "unix", "", oldClient(t))
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

// Its WebSockets know no Unix sockets.
func TestOpenAINode(t *testing.T) {
	t.Parallel()
	installNode(t)
	play(t, agentd(t), "tcp", "node", "node", "openai.mjs")
}

func TestAISDK(t *testing.T) {
	t.Parallel()
	installNode(t)
	play(t, agentd(t), "unix", "node", "node", "ai.mjs")
}

func agentd(t *testing.T) *server {
	t.Helper()
	return serve(t, "--concurrency", "4")
}

// play has a client's program check a server over the sockets of transports.
func play(t *testing.T, s *server, fast, dir string, command ...string) {
	t.Helper()
	for name, way := range s.transports(fast, "clients") {
		t.Run(name, func(t *testing.T) {
			args := append(slices.Clone(command[1:]), way.BaseURL, way.Model)
			if way.Socket != "" {
				args = append(args, way.Socket)
			}
			checks(t, dir, command[0], args...)
		})
	}
}

// installNode skips a test without the packages of the lock file.
func installNode(t *testing.T) {
	t.Helper()
	if err := installed(); err != nil {
		t.Skipf("the packages cannot be installed, so these clients are not checked: %v", err)
	}
}

// installed puts the packages of the lock file into node/node_modules, unless they are there. A fresh clone takes what
// npm has kept of earlier ones.
var installed = sync.OnceValue(func() error {
	if err := exec.Command("node", "-e",
		"process.exit(process.versions.node.split('.')[0] < 20 ? 1 : 0)").Run(); err != nil {
		return fmt.Errorf("these clients need Node 20 or newer: %w", err)
	}
	lock, err := os.ReadFile(filepath.Join("node", "package-lock.json"))
	if err != nil {
		return err
	}
	stamp := filepath.Join("node", "node_modules", ".installed") // the lock file that it was installed from
	if have, err := os.ReadFile(stamp); err == nil && bytes.Equal(have, lock) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--prefer-offline")
	cmd.Dir = "node"
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci: %w\n%s", err, out)
	}
	return os.WriteFile(stamp, lock, 0o600)
})

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
