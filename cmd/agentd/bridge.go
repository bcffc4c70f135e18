package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"syscall"

	"holon/agentd/privilege"
	"holon/internal/bridge"
	"holon/internal/transfer"
)

// bridgeSockets joins sockets of the container with those of a host that shares no directory with it, and moves files
// between both, over standard input and output. It ends with them.
func bridgeSockets(ctx context.Context, args []string, stderr io.Writer) error {
	side := bridge.Side{Listen: map[string]string{}, Dial: map[string]string{},
		Serve: map[string]func(context.Context, io.ReadWriter){transfer.Service: transfer.ServeApart}}
	fs := flag.NewFlagSet("agentd bridge", flag.ContinueOnError)
	fs.SetOutput(stderr)
	add := func(to map[string]string) func(string) error {
		return func(path string) error {
			to[path] = path
			return nil
		}
	}
	fs.Func("listen", "`path` of a socket to listen on, for the host's of that name (repeatable)", add(side.Listen))
	fs.Func("dial", "`path` of a socket that the host may reach (repeatable)", add(side.Dial))
	user := fs.String("user", "", "as root: `uid:gid` whose sockets they are")
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if fs.NArg() > 0 {
		return usageError{fmt.Errorf("bridge takes no %q; name sockets with --listen and --dial", fs.Arg(0))}
	}
	if *user != "" {
		if err := actAs(*user); err != nil {
			return err
		}
	}
	if err := hideAlways(); err != nil { // what goes over the bridge
		return err
	}
	b, err := bridge.New(standardStreams{os.Stdin, os.Stdout}, side, false)
	if err == nil {
		err = b.Run(ctx)
	}
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// actAs takes the rights of a user. Root is still the real user, so that no process of that one can signal or trace
// this one, and that those for files can be started.
func actAs(user string) error {
	u, err := privilege.ParseUser(user)
	if err != nil {
		return usageError{fmt.Errorf("--user: %w", err)}
	}
	err = errors.Join(syscall.Setgroups(nil), syscall.Setegid(u.GID), syscall.Seteuid(u.UID))
	if err != nil {
		return fmt.Errorf("take the rights of user %s: %w", user, err)
	}
	return nil
}

// standardStreams are one connection.
type standardStreams struct {
	io.Reader
	io.Writer
}

func (standardStreams) Close() error { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }
