package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"

	"holon/internal/bridge"
)

// bridgeSockets joins sockets of the container with those of a host that shares no directory with it, over standard
// input and output. It ends with them.
func bridgeSockets(ctx context.Context, args []string, help io.Writer) error {
	side := bridge.Side{Listen: map[string]string{}, Dial: map[string]string{}}
	fs := flag.NewFlagSet("agentd bridge", flag.ContinueOnError)
	fs.SetOutput(help)
	add := func(to map[string]string) func(string) error {
		return func(path string) error {
			to[path] = path
			return nil
		}
	}
	fs.Func("listen", "`path` of a socket to listen on, for the host's of that name (repeatable)", add(side.Listen))
	fs.Func("dial", "`path` of a socket that the host may reach (repeatable)", add(side.Dial))
	if err := fs.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return usageError{err}
	}
	if fs.NArg() > 0 {
		return usageError{fmt.Errorf("bridge takes no %q; name sockets with --listen and --dial", fs.Arg(0))}
	}
	if err := hideAlways(); err != nil { // what goes over the bridge
		return err
	}
	err := side.Run(ctx, standardStreams{os.Stdin, os.Stdout}, false)
	if ctx.Err() != nil || errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

// standardStreams are one connection.
type standardStreams struct {
	io.Reader
	io.Writer
}

func (standardStreams) Close() error { return errors.Join(os.Stdin.Close(), os.Stdout.Close()) }
