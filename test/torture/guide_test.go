package main

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"holon/test/buckettest"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/postgrestest"
	"holon/test/programs"
)

var guideBlock = regexp.MustCompile("(?ms)^```\n(.*?)^```$")

// guideHost is one of the hosts of the guide: a home and what its shell has.
type guideHost struct {
	*load.Server
	dir string
	env []string
}

// The guide to three hosts is what happens: its commands work as they are written, but for the names of the servers, and
// when the first daemon is killed the second host goes on from the last response.
func TestGuideToThreeHosts(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: three daemons, a database and a bucket")
	}
	expect.NoError(t, needEngine(t.Context()))
	database, bucket := postgrestest.New(t), buckettest.New(t)
	text, err := os.ReadFile("../../docs/guides/three-hosts.md")
	expect.NoError(t, err)
	blocks := guideBlock.FindAllStringSubmatch(string(text), -1)
	expect.Equal(t, "blocks of commands", len(blocks), 2)
	named := strings.NewReplacer("postgres://holon@db.example.org/holon", "'postgres://holon@/holon?host="+
		filepath.Dir(database.Socket())+"'", "'s3://agents/production?endpoint=https://s3.example.org&region=eu-1'",
		"'"+bucket.URL()+"'", "AWS_ACCESS_KEY_ID=…", "AWS_ACCESS_KEY_ID="+buckettest.ID, "AWS_SECRET_ACCESS_KEY=…",
		"AWS_SECRET_ACCESS_KEY="+buckettest.Secret)
	make, start, found := strings.Cut(named.Replace(blocks[0][1]), "\n\n")
	if use := named.Replace(blocks[1][1]); !found || strings.Contains(start+use, "…") ||
		strings.Contains(start+use, "example.org") {
		t.Fatalf("the guide has other names than this test:\n%s\n%s", start, use)
	}
	var hosts []*guideHost
	for range 3 {
		hosts = append(hosts, newGuideHost(t, filepath.Dir(database.Socket())))
	}
	one, two, three := hosts[0], hosts[1], hosts[2]
	one.shell(t, make)
	for _, h := range hosts {
		h.shell(t, start)
	}
	one.shell(t, blocks[1][1])
	two.answers(t, "first")
	_, ask, _ := strings.Cut(blocks[1][1], "\n")
	two.shell(t, ask)

	one.kill(t)
	three.shell(t, blocks[1][1])
	two.answers(t, "second")
	one.shell(t, start)
	one.shell(t, blocks[1][1])
	one.answers(t, "third")
}

func newGuideHost(t *testing.T, database string) *guideHost {
	t.Helper()
	dir, err := os.MkdirTemp("", "gh")
	expect.NoError(t, err)
	s, err := load.New(load.Options{Dir: dir, Script: []byte("turns: [{rounds: [{text: first}]}, {rounds: [{text: second}]}, " +
		"{rounds: [{text: third}]}]")})
	expect.NoError(t, err)
	h := &guideHost{Server: s, dir: dir, env: []string{"HOME=" + dir, "HOLON_HOME=" + s.Home, "HOLON_MODEL=" + s.Model(),
		"PATH=" + filepath.Dir(programs.Must("holon")) + ":" + os.Getenv("PATH"), "DOCKER_HOST=" + os.Getenv("DOCKER_HOST"),
		"PGHOST=" + database, "PGUSER=holon"}}
	t.Cleanup(func() {
		if t.Failed() {
			log, _ := os.ReadFile(filepath.Join(s.Home, "run", "daemon.log")) // it may not have begun
			t.Logf("%s\n%s", dir, log[max(0, len(log)-8<<10):])
		}
		h.kill(t)
		s.Client.Close()
		expect.NoError(t, errors.Join(load.RemoveContainers(s.Home), os.RemoveAll(dir)))
	})
	return h
}

// shell runs commands, all of which have to succeed.
func (h *guideHost) shell(t *testing.T, commands string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-exc", commands)
	cmd.Dir, cmd.Env = h.dir, h.env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}

// answers waits until the newest turn of the agent, on any host, has said a text.
func (h *guideHost) answers(t *testing.T, text string) {
	t.Helper()
	expect.NoError(t, load.Eventually(t.Context(), load.Patience, func() error {
		cmd := exec.CommandContext(t.Context(), programs.Must("holon"), "transcript", "--agent", "main", "--json")
		cmd.Dir, cmd.Env = h.dir, h.env
		out, err := cmd.CombinedOutput()
		if err == nil && !strings.Contains(string(out), `"`+text+`"`) {
			err = errors.New("it has not said " + text)
		}
		return err
	}))
}

// kill kills the daemon, if there is one.
func (h *guideHost) kill(t *testing.T) {
	t.Helper()
	var process struct{ PID int }
	data, err := os.ReadFile(filepath.Join(h.Home, "run", "daemon.json"))
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	expect.NoError(t, errors.Join(err, json.Unmarshal(data, &process)))
	if process.PID == 0 {
		t.Fatalf("daemon.json has no process: %s", data)
	}
	_ = syscall.Kill(process.PID, syscall.SIGKILL) // it may have ended
}
