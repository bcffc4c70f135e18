// Package longlived runs a `holon serve` for a test, with agents whose model plays a
// script, and sends them messages of every kind.
//
// The invariant: a message that [Server.Send] reports as acknowledged was
// acknowledged. Send repeats a message under the same key until its outcome is known,
// so a missing or duplicate message is a fault of the runtime.
package longlived

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"holon/runner/control/client"
)

// Patience bounds every wait. It says when something hangs, not how fast
// anything has to be.
const Patience = 90 * time.Second

// Options say which server.
type Options struct {
	Dir    string   // exists, short; the home lies in it
	Bin    string   // directory of holon and agentd
	Engine string   // DOCKER_HOST; "": the default
	Model  string   // of all agents; "": one that plays the script
	Env    []string // further variables, settings of the runtime among them
}

// Server is a state home, and the process that serves it while there is one.
// Start, Kill and End belong to one goroutine.
type Server struct {
	Home   string
	Socket string
	Client *client.Client

	opts Options
	raw  *http.Client
	cmd  *exec.Cmd
	done chan struct{} // closed when cmd has been waited for

	mu       sync.Mutex
	triggers map[string]string // path of the callback URL, by agent
}

// New makes the home and the script. Nothing runs yet.
func New(o Options) (*Server, error) {
	s := &Server{Home: filepath.Join(o.Dir, "h"), opts: o, triggers: make(map[string]string)}
	s.Socket = filepath.Join(s.Home, "run", "holon.sock")
	script, err := script()
	if err != nil {
		return nil, err
	}
	if s.opts.Model == "" {
		s.opts.Model = "scripted/" + s.script()
	}
	if err := errors.Join(os.MkdirAll(s.Home, 0o700), os.WriteFile(s.script(), script, 0o644)); err != nil {
		return nil, err
	}
	s.Client = client.Unix(s.Socket)
	s.raw = &http.Client{Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn,
		error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", s.Socket)
	}}}
	return s, nil
}

func (s *Server) script() string { return filepath.Join(s.opts.Dir, "script.yaml") }

// Log is the file with what the processes said.
func (s *Server) Log() string { return filepath.Join(s.opts.Dir, "serve.log") }

// Close ends what runs and gives up connections.
func (s *Server) Close() {
	s.Kill()
	s.Client.Close()
	s.raw.CloseIdleConnections()
}

// Launch starts the process in a session of its own, so that what kills it kills
// nothing else.
func (s *Server) Launch() error {
	log, err := os.OpenFile(s.Log(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	cmd := exec.Command(filepath.Join(s.opts.Bin, "holon"), "serve", "--socket", s.Socket, "--model", s.opts.Model)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.opts.Dir, log, log
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.opts.Dir, "HOLON_HOME=" + s.Home,
		"DOCKER_HOST=" + s.opts.Engine}, s.opts.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	done := make(chan struct{})
	s.cmd, s.done = cmd, done
	go func() {
		defer close(done)
		_ = cmd.Wait() // ProcessState says how it ended
		_ = log.Close()
	}()
	return nil
}

// Start launches the process and waits until the runtime has recovered.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.Ready(ctx)
}

// Ready waits until the runtime has recovered.
func (s *Server) Ready(ctx context.Context) error {
	done := s.done
	return Eventually(ctx, func() error {
		select {
		case <-done:
			return Final(fmt.Errorf("holon serve ended by itself: %s\n%s", s.cmd.ProcessState, s.Tail()))
		default:
		}
		ready, err := s.Client.Readiness(ctx)
		if err == nil && !ready.Ready {
			err = errors.New("holon serve is not ready")
		}
		return err
	})
}

// PID is the process, 0 when there is none.
func (s *Server) PID() int {
	if s.cmd == nil {
		return 0
	}
	return s.cmd.Process.Pid
}

// Kill ends the process as nothing can be handled, and waits for it.
func (s *Server) Kill() {
	if s.cmd == nil {
		return
	}
	_ = s.cmd.Process.Kill() // it may have ended
	<-s.done
	s.cmd = nil
}

// End asks the process to end and checks that it does, in good order.
func (s *Server) End() error {
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-s.done:
	case <-time.After(Patience):
		_ = s.cmd.Process.Signal(syscall.SIGQUIT) // its goroutines tell why
		time.Sleep(time.Second)
		s.Kill()
		return fmt.Errorf("holon serve did not end within %s of SIGTERM\n%s", Patience, s.Tail())
	}
	code := s.cmd.ProcessState.ExitCode()
	s.cmd = nil
	if code != 0 {
		return fmt.Errorf("holon serve ended with %d after SIGTERM\n%s", code, s.Tail())
	}
	return nil
}

// Tail is the end of the log.
func (s *Server) Tail() []byte {
	data, _ := os.ReadFile(s.Log()) // it explains, if it is there
	return bytes.TrimSpace(data[max(0, len(data)-6000):])
}

// Ledger is the file of the ledger.
func (s *Server) Ledger() string { return filepath.Join(s.Home, "ledger.sqlite") }

// Ran is the file in which the commands of an agent say that they ran.
func (s *Server) Ran(agent string) string { return filepath.Join(s.Home, "agents", agent, "ran") }

// Containers lists those of the home, of one agent or of all for "".
func (s *Server) Containers(ctx context.Context, agent string) ([]string, error) {
	args := []string{"ps", "-aq", "--no-trunc", "--filter", "label=holon.home=" + s.Home}
	if agent != "" {
		args = append(args, "--filter", "label=holon.agent="+agent)
	}
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	return strings.Fields(string(out)), err
}

// RemoveContainers is for a test that failed; another leaves none.
func (s *Server) RemoveContainers() error {
	ids, err := s.Containers(context.Background(), "") // also when the test was interrupted
	if err != nil || len(ids) == 0 {
		return err
	}
	return exec.Command("docker", append([]string{"rm", "-f"}, ids...)...).Run()
}

// post posts what has no place in the control plane's client: what strangers
// send.
func (s *Server) post(ctx context.Context, path, contentType, key string, body []byte) (answer []byte, status int,
	err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://holon"+path, bytes.NewReader(body))
	if err != nil {
		return nil, 0, err
	}
	req.Header.Set("Content-Type", contentType)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	resp, err := s.raw.Do(req)
	if err != nil {
		return nil, 0, err
	}
	defer resp.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return answer, resp.StatusCode, err
}

// Metric returns a number of GET /metrics, 0 when it is not there.
func (s *Server) Metric(ctx context.Context, name string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://holon/metrics", nil)
	if err != nil {
		return 0, err
	}
	resp, err := s.raw.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 2 && f[0] == name {
			n, err := strconv.ParseFloat(f[1], 64)
			return int(n), err
		}
	}
	return 0, nil
}

// final is an error that waiting does not help.
type final struct{ error }

func (f final) Unwrap() error { return f.error }

// Final ends the waiting of Eventually.
func Final(err error) error { return final{err} }

// Eventually waits until f finds nothing wrong, and returns what it found last.
func Eventually(ctx context.Context, f func() error) error {
	for end := time.Now().Add(Patience); ; {
		err := f()
		if _, last := errors.AsType[final](err); err == nil || last || time.Now().After(end) {
			return err
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
