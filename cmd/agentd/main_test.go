package main

import (
	"context"
	"errors"
	"flag"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"holon/agentd/config"
	"holon/responses/client"
	"holon/test/expect"
	"holon/test/programs"
)

var update = flag.Bool("update", false, "write testdata/modules.txt anew")

var guideFile = regexp.MustCompile("(?s)\n```[a-z]+\n# file: ([^\n]+)\n(.*?)```\n")

// TestScripts runs the program as people do; the scripts are its manual of
// behaviour. They have two commands of their own: "exits N command…" for exact
// exit codes and "ready SOCKET" to wait for a server.
func TestScripts(t *testing.T) {
	t.Parallel()
	testscript.Run(t, testscript.Params{
		Dir: filepath.Join("testdata", "script"),
		Setup: func(env *testscript.Env) error {
			for _, name := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL"} {
				env.Setenv(name, "")
			}
			env.Setenv("PATH", filepath.Dir(programs.Must("agentd"))+string(filepath.ListSeparator)+env.Getenv("PATH"))
			if err := guideFiles(filepath.Join(env.WorkDir, "ci")); err != nil {
				return err
			}
			demo := os.DirFS(filepath.Join("..", "holon", "demo", "project"))
			return os.CopyFS(filepath.Join(env.WorkDir, "project"), demo)
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exits": exits, "ready": ready},
	})
}

// guideFiles writes the files of the guide for CI jobs to dir. Each is a block
// that begins with its path, as "# file: PATH".
func guideFiles(dir string) error {
	guide, err := os.ReadFile(filepath.Join("..", "..", "docs", "guides", "ci.md"))
	if err != nil {
		return err
	}
	for _, block := range guideFile.FindAllSubmatch(guide, -1) {
		path := filepath.Join(dir, string(block[1]))
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(path, block[2], 0o600); err != nil {
			return err
		}
	}
	return nil
}

func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits N command args...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	err = ts.Exec(args[1], args[2:]...)
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		got = failed.ExitCode()
	} else {
		ts.Check(err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}

func ready(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(awaitReady(ts.MkAbs(args[0])))
}

// awaitReady waits until a server answers on the socket.
func awaitReady(socket string) error {
	c := client.Unix(socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	for {
		_, err := c.Health(ctx)
		if err == nil || ctx.Err() != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// TestModules shows, in review, what a change links into agentd.
func TestModules(t *testing.T) {
	t.Parallel()
	out, err := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{.Path}}{{end}}", ".").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	list := slices.Compact(slices.Sorted(strings.FieldsSeq(string(out))))
	got := strings.Join(list, "\n") + "\n"
	golden := filepath.Join("testdata", "modules.txt")
	if *update {
		expect.NoError(t, os.WriteFile(golden, []byte(got), 0o644))
	}
	want, err := os.ReadFile(golden)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("agentd links\n%s\nand %s lists\n%s\nIf that is meant, run go test ./cmd/agentd -update", got, golden,
			want)
	}
}

// Paths of containers are refused, all at once, outside of a container.
func TestPathsOfContainers(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cfg := config.Default()
	cfg.Server.Socket, cfg.Dirs.Output, cfg.Dirs.State = dir+"/none/s", dir+"/none/o", dir+"/other/s"
	expect.Equal(t, "with the directory", len(ofContainer(&cfg, dir)), 0)
	p := ofContainer(&cfg, dir+"/none")
	if len(p) != 2 || p[0].Setting != "--socket" || p[1].Setting != "--output-dir" {
		t.Errorf("got %+v, want --socket and --output-dir", p)
	}
}
