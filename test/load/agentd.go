package load

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"holon/responses/client"
	"holon/test/programs"
)

// Agentd is an agentd that runs as a plain process, with the directories that
// survive it.
type Agentd struct {
	Dir           string // exists, short: the socket lies in it
	Output, State string
	Flags, Env    []string

	*Process
}

// NewAgentd lays out the directories; output and state are beneath data.
func NewAgentd(dir, data string, flags ...string) (*Agentd, error) {
	a := &Agentd{Dir: dir, Output: filepath.Join(data, "out"), State: filepath.Join(data, "state"), Flags: flags}
	return a, os.Mkdir(a.Workspace(), 0o755)
}

func (a *Agentd) Socket() string { return filepath.Join(a.Dir, "s") }

func (a *Agentd) Workspace() string { return filepath.Join(a.Dir, "ws") }

func (a *Agentd) Launch() (err error) {
	program, err := programs.Path("agentd")
	if err != nil {
		return err
	}
	cmd := exec.Command(program, "serve", "--socket", a.Socket(), "--input-dir", filepath.Join(a.Dir, "in"),
		"--output-dir", a.Output, "--state-dir", a.State, "--workspace-dir", a.Workspace(),
		"--skills-dir", filepath.Join(a.Dir, "skills"))
	cmd.Args = append(cmd.Args, a.Flags...)
	cmd.Dir = a.Workspace()
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + a.Dir}, a.Env...)
	a.Process, err = Start(cmd, filepath.Join(a.Dir, "agentd.log"))
	return err
}

func (a *Agentd) Ready(ctx context.Context) error {
	c := client.Unix(a.Socket())
	defer c.Close()
	return a.Process.Ready(ctx, func() error {
		h, err := c.Health(ctx)
		if err == nil && h.Status != "ready" {
			err = fmt.Errorf("it says %s", h.Status)
		}
		return err
	})
}

// StartModel starts the model of package holon/test/programs/floor, which answers a name fake-N or fake-N-GAP, and
// returns its base URL.
func StartModel(ctx context.Context, dir string, env ...string) (p *Process, url string, err error) {
	program, err := programs.Path("floor")
	if err != nil {
		return nil, "", err
	}
	cmd := exec.Command(program, "model")
	cmd.Env = append([]string{"PATH=" + os.Getenv("PATH")}, env...)
	if p, err = Start(cmd, filepath.Join(dir, "model.log")); err != nil {
		return nil, "", err
	}
	return p, url, p.Ready(ctx, func() error {
		address := p.Tail()
		if len(address) == 0 {
			return fmt.Errorf("the model does not start")
		}
		url = "http://" + string(address) + "/v1"
		return nil
	})
}
