package docker

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/docker/docker/client"

	"holon/internal/visible"
	"holon/runner/engine"
)

// withHost is client.WithHost that knows ssh://[USER@]HOST[:PORT][/SOCKET] too. As in the Docker tools, each connection
// is an ssh of its own, with the keys and settings of the user's ssh, which asks nothing.
func withHost(host string) client.Opt {
	if !strings.HasPrefix(host, "ssh://") {
		return client.WithHost(host)
	}
	return func(c *client.Client) error {
		u, err := url.Parse(host)
		if err == nil && (u.Hostname() == "" || u.RawQuery != "" || u.Fragment != "") {
			err = errors.New("it has to be like ssh://user@host:22")
		}
		if _, has := u.User.Password(); err == nil && has {
			err = errors.New("ssh takes no password from a URL; use a key")
		}
		if err != nil {
			return err
		}
		dial := func(context.Context, string, string) (net.Conn, error) { return dialSSH(sshArguments(u)) }
		return errors.Join(client.WithHost("ssh://"+u.Host)(c), client.WithHTTPClient(&http.Client{
			Transport: &http.Transport{DialContext: dial}, CheckRedirect: client.CheckRedirect})(c))
	}
}

func sshArguments(u *url.URL) []string {
	args := []string{"-o", "ConnectTimeout=30", "-T"}
	if user := u.User.Username(); user != "" {
		args = append(args, "-l", user)
	}
	if u.Port() != "" {
		args = append(args, "-p", u.Port())
	}
	args = append(args, "--", u.Hostname(), "docker")
	if strings.Trim(u.Path, "/") != "" {
		args = append(args, "--host", "'unix://"+strings.ReplaceAll(u.Path, "'", `'\''`)+"'") // a shell reads it
	}
	return append(args, "system", "dial-stdio")
}

// sshConn is the standard streams of an ssh.
type sshConn struct {
	net.Conn
	end   context.CancelFunc
	ended chan struct{}
	err   error // when ended is closed: why ssh failed, or nil
}

func dialSSH(args []string) (net.Conn, error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "ssh"), os.NewFile(uintptr(fds[1]), "ssh")
	defer theirs.Close()
	conn, err := net.FileConn(ours) // which is a copy
	if err = errors.Join(err, ours.Close()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background()) // it ends with the connection
	c := &sshConn{Conn: conn, end: cancel, ended: make(chan struct{})}
	stderr := engine.NewTail(4 << 10)
	cmd := exec.CommandContext(ctx, "ssh", args...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.WaitDelay = theirs, theirs, stderr, time.Second
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // away from the terminal's Ctrl-C
	if err := cmd.Start(); err != nil {
		cancel()
		return nil, errors.Join(&sshError{text: err.Error()}, conn.Close())
	}
	go func() {
		defer close(c.ended)
		if exit, ok := errors.AsType[*exec.ExitError](cmd.Wait()); ok {
			c.err = &sshError{exit.ExitCode(), cmp.Or(strings.TrimSpace(string(stderr.Bytes())), exit.Error())}
		}
	}()
	return c, nil
}

func (c *sshConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	return n, c.why(err)
}

func (c *sshConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	return n, c.why(err)
}

// why returns the error of ssh where a connection ended because of it.
func (c *sshConn) why(err error) error {
	if err == nil || errors.Is(err, net.ErrClosed) || errors.Is(err, os.ErrDeadlineExceeded) {
		return err
	}
	<-c.ended
	if c.err != nil {
		return c.err
	}
	return err
}

// Close ends ssh and waits for it.
func (c *sshConn) Close() error {
	err := c.Conn.Close()
	c.end()
	<-c.ended
	return err
}

// sshError is what an ssh said when it failed. Its exit code is 255 when it reached no program, otherwise that of the
// program.
type sshError struct {
	exit int
	text string
}

// Error leaves out the words by which the Docker client replaces an error with one of its own.
func (e *sshError) Error() string {
	return "ssh: " + visible.OneLine(strings.ReplaceAll(e.text, "dial unix ", ""), 300)
}

func (e *sshError) hint() string {
	const must = ": `ssh HOST docker version` has to work without a question; DOCKER_HOST or the Docker context names HOST"
	switch {
	case e.exit == 0:
		return "install the OpenSSH client"
	case e.exit != 255:
		return "install Docker there and let the user have it" + must
	case strings.Contains(e.text, "Permission denied") || strings.Contains(e.text, "Host key verification failed"):
		return "load a key that the host accepts into ssh-agent, and connect once by hand to accept the host's key" + must
	}
	return "check the name, the port and the network" + must
}
