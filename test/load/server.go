// Package load starts what is put under load, agentd as a process and `holon serve` with its agents, whose model plays
// a script; sends messages of every kind, follows events, and looks at what processes use.
//
// The invariant: a message that [Server.Send] reports as acknowledged was
// acknowledged. Send repeats a message under the same key until its outcome is known,
// so a missing or duplicate message is a fault of the runtime.
package load

import (
	"context"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"

	"holon/runner/control/client"
	"holon/test/programs"
)

type Options struct {
	Dir    string   // exists, short; the home lies in it
	Engine string   // DOCKER_HOST; "": the default
	Model  string   // of all agents; "": one that plays the script
	Env    []string // further variables, settings of the runtime among them
	Roots  []string // directories of which agents may use what lies below; repositories that the script is about then
	Script []byte   // what the model plays instead; nil: messages of agents
	Flags  []string // further ones of holon serve
	Beside *Server  // whose home this one shares, by a socket of its own
}

// Server is a state home, and the process that serves it while there is one.
// Start, Kill and End belong to one goroutine.
type Server struct {
	Home   string
	Socket string
	Client *client.Client

	*Process // the newest

	opts Options
	raw  *http.Client

	mu       sync.Mutex
	triggers map[string]string // path of the callback URL, by agent
}

// New makes the home and the script. Nothing runs yet.
func New(o Options) (*Server, error) {
	s := &Server{Home: filepath.Join(o.Dir, "h"), opts: o, triggers: make(map[string]string)}
	s.Socket = filepath.Join(s.Home, "run", "holon.sock")
	if o.Beside != nil {
		s.Home, s.Socket = o.Beside.Home, filepath.Join(o.Dir, "s")
	}
	text, err := o.Script, error(nil)
	switch {
	case text != nil:
	case len(o.Roots) > 0:
		text, err = treeScript(o.Roots)
	default:
		text, err = script()
	}
	if err != nil {
		return nil, err
	}
	file := filepath.Join(o.Dir, "script.yaml")
	if o.Model == "" {
		s.opts.Model = "scripted/" + file
	}
	if err := errors.Join(os.MkdirAll(s.Home, 0o700), os.WriteFile(file, text, 0o644)); err != nil {
		return nil, err
	}
	s.Client = client.Unix(s.Socket)
	s.raw = Unix(s.Socket)
	return s, nil
}

// Unix is a client whose every connection goes to a socket.
func Unix(socket string) *http.Client {
	return &http.Client{Transport: &http.Transport{
		MaxIdleConnsPerHost: 8, DisableCompression: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", socket)
		},
	}}
}

func (s *Server) Close() {
	s.Kill()
	s.Client.Close()
	s.raw.CloseIdleConnections()
}

func (s *Server) Launch() error {
	program, err := programs.Path("holon")
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "serve", "--socket", s.Socket, "--model", s.opts.Model)
	for _, dir := range s.opts.Roots {
		cmd.Args = append(cmd.Args, "--workspace-root", dir)
	}
	cmd.Args = append(cmd.Args, s.opts.Flags...)
	cmd.Dir = s.opts.Dir
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + s.opts.Dir, "HOLON_HOME=" + s.Home,
		"DOCKER_HOST=" + s.opts.Engine}, s.opts.Env...)
	s.Process, err = Start(cmd, filepath.Join(s.opts.Dir, "serve.log"))
	return err
}

// Start launches the process and waits until the runtime has recovered.
func (s *Server) Start(ctx context.Context) error {
	if err := s.Launch(); err != nil {
		return err
	}
	return s.Process.Ready(ctx, func() error {
		ready, err := s.Client.Readiness(ctx)
		if err == nil && !ready.Ready {
			err = errors.New("holon serve is not ready")
		}
		return err
	})
}

// Model is the model of its agents, which clients may name too.
func (s *Server) Model() string { return s.opts.Model }

func (s *Server) Ledger() string { return filepath.Join(s.Home, "ledger.sqlite") }

// Ran is the file in which the commands of an agent say that they ran.
func (s *Server) Ran(agent string) string { return filepath.Join(s.Home, "agents", agent, "ran") }

// Containers lists those of a home, running or not, of one agent or of all for "".
func Containers(ctx context.Context, home, agent string) ([]string, error) {
	args := []string{"ps", "-aq", "--no-trunc", "--filter", "label=holon.home=" + home}
	if agent != "" {
		args = append(args, "--filter", "label=holon.agent="+agent)
	}
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	return strings.Fields(string(out)), err
}

// RemoveContainers is for a test that failed or was interrupted; another leaves none in its home.
func RemoveContainers(home string) error {
	ids, err := Containers(context.Background(), home, "")
	if err != nil || len(ids) == 0 {
		return err
	}
	return exec.Command("docker", append([]string{"rm", "-f"}, ids...)...).Run()
}
