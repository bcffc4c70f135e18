package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"holon/responses"
	"holon/runner/control/client"
	"holon/runner/daemon"
	"holon/runner/engine/docker"
	"holon/test/expect"
	"holon/test/postgrestest"
	"holon/test/programs"
)

// Every script of testdata/script is a test of the command line. Besides the usual commands they have
//
//	fails CODE FIELD COMMAND...  ends with CODE and one line of error: FIELD: what; remedy
//	repo DIR                makes DIR a git repository with one commit of all that is in it
//	demo DIR                makes DIR a repository with the project of the demo
//	provider NAME KIND [KEY]  starts a provider (provider_test.go)
//	collector NAME          starts a collector of OpenTelemetry (collector_test.go)
//	same A B                the directory trees A and B have the same files
//	until REGEXP COMMAND... runs the command until it prints what fits, at most a minute
//	crash                   kills the daemon of the script, as a power cut would
//	events PACK LOG         writes the events of an export, one a line
//	webhook SCHEME SECRET TRIGGER BODY ID  sends a signed webhook (webhook_test.go)
//
// and the conditions [engine], a Docker engine answers, and [image:NAME], it has that image.
func TestScripts(t *testing.T) { runScripts(t, "testdata/script") }

// Those of testdata/postgres have a server of their own, which `database stop` stops and `database start` starts again;
// `database hang` stops its processes where they are until `database resume`.
func TestPostgresScripts(t *testing.T) { runPostgresScripts(t, "testdata/postgres") }

// In those of testdata/shared several holon serve share a ledger.
func TestSharedScripts(t *testing.T) { runPostgresScripts(t, "testdata/shared") }

func runPostgresScripts(t *testing.T, dir string) {
	t.Parallel()
	server := postgrestest.New(t)
	runScripts(t, dir, func(p *testscript.Params) {
		setup := p.Setup
		p.Setup = func(env *testscript.Env) error {
			env.Setenv("HOLON_LEDGER", server.Database(t))
			return setup(env)
		}
		p.Cmds["database"] = func(ts *testscript.TestScript, neg bool, args []string) {
			switch {
			case !neg && slices.Equal(args, []string{"stop"}):
				server.Stop(t, syscall.SIGQUIT)
			case !neg && slices.Equal(args, []string{"start"}):
				server.Start(t)
			case !neg && slices.Equal(args, []string{"hang"}):
				server.Hang(t)
			case !neg && slices.Equal(args, []string{"resume"}):
				server.Resume(t)
			default:
				ts.Fatalf("usage: database stop|start|hang|resume")
			}
		}
	})
}

// Those of testdata/userscript depend on who calls: modes and owners of files, sockets, the user of the local engine.
func TestUserScripts(t *testing.T) { runScripts(t, "testdata/userscript") }

// Those of testdata/firstrun are the first runs on projects of several languages, in the images that images/build makes.
func TestFirstRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: compilers run")
	}
	runScripts(t, "testdata/firstrun")
}

func runScripts(t *testing.T, dir string, change ...func(*testscript.Params)) {
	t.Helper()
	project, err := filepath.Abs("demo/project")
	expect.NoError(t, err)
	failures := readScriptErrors(t)
	params := testscript.Params{
		Dir: dir,
		Setup: func(env *testscript.Env) error {
			for name, value := range map[string]string{
				"HOLON_HOME": filepath.Join(env.WorkDir, "home"), "HOLON_AGENTD": programs.Must("agentd"), "PROJECT": project,
				"SERVICE":           programs.Must("service"),
				"HOLON_RETRY_FOR":   "0s", // a provider that is out of order stays so
				"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_SYSTEM": os.DevNull,
				"GIT_AUTHOR_NAME": "A", "GIT_AUTHOR_EMAIL": "a@example.org", "GIT_COMMITTER_NAME": "A",
				"GIT_COMMITTER_EMAIL": "a@example.org",
			} {
				env.Setenv(name, value)
			}
			env.Setenv("PATH", filepath.Dir(programs.Must("holon"))+string(filepath.ListSeparator)+env.Getenv("PATH"))
			lines := new([]string)
			env.Values[linesKey{}] = lines
			env.Defer(func() {
				failures.check(t, strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"), *lines)
				stopDaemon(t, filepath.Join(env.WorkDir, "home"))
				checkRecords(t, env.WorkDir)
			})
			return nil
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"fails": cmdFails, "provider": cmdProvider, "sent": cmdSent, "repo": cmdRepo, "demo": cmdDemo, "same": cmdSame,
			"until": cmdUntil, "crash": cmdCrash, "collector": cmdCollector, "events": cmdEvents,
			"webhook": cmdWebhook, "ask": cmdAsk,
		},
		Condition: func(name string) (bool, error) {
			if image, ok := strings.CutPrefix(name, "image:"); ok {
				return exec.Command("docker", "image", "inspect", image).Run() == nil, nil
			}
			if name != "engine" {
				return false, fmt.Errorf("unknown condition %q", name)
			}
			eng, err := docker.New("", "")
			if err != nil {
				return false, nil //nolint:nilerr // that is the answer
			}
			_, err = eng.Check(t.Context())
			return err == nil, eng.Close()
		},
	}
	for _, fn := range change {
		fn(&params)
	}
	testscript.Run(t, params)
}

// stopDaemon ends the daemon that a script has left.
func stopDaemon(t *testing.T, home string) {
	if _, err := os.Stat(filepath.Join(home, "run", "daemon.json")); err != nil {
		return
	}
	// the script's context is over
	if _, err := daemon.New(daemon.Options{Home: home}).Stop(context.Background()); err != nil {
		t.Errorf("stop the daemon: %v", err)
	}
}

func cmdUntil(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: until REGEXP COMMAND...")
	}
	want := regexp.MustCompile("(?m)" + args[0])
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		_ = ts.Exec(args[1], args[2:]...) // what it prints counts
		if want.MatchString(ts.ReadFile("stdout")) {
			return
		}
		if time.Now().After(deadline) {
			ts.Fatalf("it never printed %s:\n%s%s", args[0], ts.ReadFile("stdout"), ts.ReadFile("stderr"))
		}
	}
}

// cmdAsk makes the next turn of a session of the operator, as a client does, and prints its answer.
func cmdAsk(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: ask SESSION TEXT")
	}
	c := client.Unix(daemon.SocketPath(ts.Getenv("HOLON_HOME")))
	defer c.Close()
	session, err := c.Session(context.Background(), args[0])
	ts.Check(err)
	q := responses.NewRequest(session.Model, responses.UserMessage(args[1]))
	q.Holon.SessionID = session.ID
	made, err := c.Responses().Background(context.Background(), q)
	ts.Check(err)
	for ev, err := range c.Responses().Events(context.Background(), made.ID, -1) {
		ts.Check(err)
		if ev.Response != nil && ev.Response.Status.Terminal() {
			_, err = fmt.Fprintln(ts.Stdout(), ev.Response.OutputText())
			ts.Check(err)
		}
	}
}

func cmdCrash(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) > 0 {
		ts.Fatalf("usage: crash")
	}
	d := daemon.New(daemon.Options{Home: ts.Getenv("HOLON_HOME")})
	status, err := d.Status(context.Background())
	ts.Check(err)
	if status.PID == 0 {
		ts.Fatalf("there is no daemon")
	}
	ts.Check(syscall.Kill(status.PID, syscall.SIGKILL))
	for status.State != daemon.Ended { // a kill takes its time
		status, err = d.Status(context.Background())
		ts.Check(err)
	}
}

func cmdEvents(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: events PACK LOG")
	}
	var pack struct {
		Events []json.RawMessage `json:"events"`
	}
	ts.Check(json.Unmarshal([]byte(ts.ReadFile(args[0])), &pack))
	var log bytes.Buffer
	for _, event := range pack.Events {
		log.Write(append(event, '\n'))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), log.Bytes(), 0o600))
}

var errorLine = regexp.MustCompile(
	`^holon: (?:(?:(?:agent|profile|standard) )?[^ :]+:|no daemon answers at) [^\n]+; [^\n]+\n$`)

func cmdFails(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: fails CODE FIELD COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[2], args[3:]...)
	code := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		code = exit.ExitCode()
	} else {
		ts.Check(err)
	}
	if code != want {
		ts.Fatalf("exit code %d, want %d", code, want)
	}
	stderr := ts.ReadFile("stderr")
	if !errorLine.MatchString(stderr) {
		ts.Fatalf("stderr is not one line \"holon: FIELD: what; remedy\":\n%s", stderr)
	}
	if !regexp.MustCompile("^holon: (?:" + args[1] + "): ").MatchString(stderr) {
		ts.Fatalf("stderr is not about %s:\n%s", args[1], stderr)
	}
	lines := ts.Value(linesKey{}).(*[]string)
	*lines = append(*lines, fmt.Sprintf("%d %s", code, normalised(stderr, ts.Getenv("WORK"))))
}

func cmdRepo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: repo DIR")
	}
	for _, git := range [][]string{{"init", "-q", "-b", "main"}, {"add", "-A"},
		{"commit", "-q", "--allow-empty", "-m", "all"}} {
		ts.Check(ts.Exec("git", append([]string{"-C", ts.MkAbs(args[0])}, git...)...))
	}
}

func cmdDemo(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: demo DIR")
	}
	ts.Check(os.CopyFS(ts.MkAbs(args[0]), os.DirFS(ts.Getenv("PROJECT"))))
	cmdRepo(ts, false, args)
}

func cmdSame(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	a, b := listing(ts, args[0]), listing(ts, args[1])
	if slices.Equal(a, b) == neg {
		ts.Fatalf("%s has\n%s\n%s has\n%s", args[0], strings.Join(a, "\n"), args[1], strings.Join(b, "\n"))
	}
}

// listing describes every file of a directory tree, with its content.
func listing(ts *testscript.TestScript, dir string) (lines []string) {
	dir = ts.MkAbs(dir)
	ts.Check(filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		lines = append(lines, fmt.Sprintf("%s %s %q", strings.TrimPrefix(path, dir), info.Mode(), data))
		return err
	}))
	return lines
}
