// Package clients shows that agentd is what clients take it for: it runs the
// built program with a scripted model and drives it over TCP and its Unix
// socket with the cases of package conform, with OpenAI's clients for Go and
// Node, and with Vercel's AI SDK.
//
// Every server must end by itself when it is told to. What needs Node or the
// registry of its packages is skipped, with a message, where they are absent.
package clients

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holon/responses/client"
	"holon/test/expect"
	"holon/test/programs"
)

// patience bounds everything that is waited for. It says when a test gives up,
// not how fast anything has to be.
const patience = 2 * time.Minute

// server is a running agentd, or a holon serve in front of one for each conversation.
type server struct {
	dir    string
	socket string
	tcp    string // base URL
	model  string // the only one, of a holon; "": all scenarios
}

// serve starts agentd with the scenarios of testdata, and ends it when the test
// is over.
func serve(t *testing.T, flags ...string) *server {
	t.Helper()
	dir, err := os.MkdirTemp("", "holon-clients-") // t.TempDir's paths are too long for a socket
	expect.NoError(t, err)
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	s := &server{dir: dir, socket: filepath.Join(dir, "s")}
	args := []string{"serve", "--socket", s.socket, "--listen", "127.0.0.1:0", "--min-free-bytes", "0"}
	for _, name := range []string{"input", "output", "state", "workspace", "skills"} {
		at := filepath.Join(dir, name)
		expect.NoError(t, os.Mkdir(at, 0o700))
		args = append(args, "--"+name+"-dir", at)
	}
	scenarios, err := filepath.Glob(filepath.Join("testdata", "*.yaml"))
	if err != nil || len(scenarios) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, path := range scenarios {
		data, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "workspace", filepath.Base(path)), data, 0o600)
		}
		expect.NoError(t, err)
	}
	s.start(t, append(args, flags...))
	return s
}

// start runs the program and waits until it is ready.
func (s *server) start(t *testing.T, args []string) {
	t.Helper()
	cmd := exec.Command(programs.Must("agentd"), args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.dir, "HOLON_RETRY_FOR=0s"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	stderr, err := cmd.StderrPipe()
	if err == nil {
		err = cmd.Start()
	}
	expect.NoError(t, err)
	log := &serverLog{address: make(chan string, 1)}
	read := make(chan struct{})
	go func() {
		defer close(read)
		log.follow(stderr)
	}()
	t.Cleanup(func() {
		kill := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() }) // Wait says so
		err := cmd.Process.Signal(syscall.SIGTERM)
		<-read
		if err = errors.Join(err, cmd.Wait()); err != nil {
			t.Errorf("agentd: %v", err)
		}
		kill.Stop()
		if t.Failed() {
			t.Logf("agentd said:\n%s", log.tail())
		}
	})
	select {
	case address := <-log.address:
		s.tcp = "http://" + address + "/v1"
	case <-read:
		t.Fatalf("agentd has ended:\n%s", log.tail())
	case <-time.After(patience):
		t.Fatal("agentd does not listen")
	}
	s.ready(t)
}

func (s *server) ready(t *testing.T) {
	t.Helper()
	c := client.Unix(s.socket)
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		_, err := c.Health(ctx)
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// serverLog keeps the end of what agentd says, and finds its TCP address.
type serverLog struct {
	address chan string
	mu      sync.Mutex
	lines   []string
}

func (l *serverLog) follow(r io.Reader) {
	for lines := bufio.NewScanner(r); lines.Scan(); {
		line := lines.Text()
		if _, after, ok := strings.Cut(line, "network=tcp address="); ok {
			address, _, _ := strings.Cut(after, " ")
			l.address <- address
		}
		l.mu.Lock()
		if l.lines = append(l.lines, line); len(l.lines) > 100 {
			l.lines = l.lines[1:]
		}
		l.mu.Unlock()
	}
}

func (l *serverLog) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.lines, "\n")
}
