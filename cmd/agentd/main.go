// Command agentd is the agent server that lives in a container. It turns flags
// and environment into a checked configuration and runs it; all else is in
// package agentd.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/privilege"
	"holon/internal/redact"
	"holon/internal/transfer"
	"holon/responses"
	"holon/responses/turns"
)

// Exit codes, the same for `holon run` and `agentd run` (docs/reference/run.md).
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitWaiting     = 3
	exitRefused     = 4
	exitDeadline    = 124
	exitInterrupted = 130
)

const usage = `agentd is an agent server that speaks Open Responses.

Usage:
  agentd serve [flags]    serve the API until SIGTERM
  agentd run   [flags]    run the one turn of --request and exit
  agentd probe [flags]    ask a running server how it is; exit 0 when it is ready
  agentd bridge           join sockets and move files between a container and a host, over standard input and output
  agentd files            only move files
  agentd pod              what the kubernetes engine runs in its Pods; see agentd pod help
  agentd debug prompt     show what a model is sent, and where it comes from
  agentd debug container  show what a process sees of its container
  agentd version          print the version

"agentd COMMAND --help" lists the flags. Each flag can also be set by an
environment variable: --socket by HOLON_SOCKET, --state-dir by HOLON_STATE_DIR,
and so on. Without a command, agentd serves on HOLON_SOCKET if that is set.
`

func main() {
	privilege.Launch()
	signals := []os.Signal{os.Interrupt, syscall.SIGTERM}
	if !signal.Ignored(syscall.SIGHUP) { // as nohup leaves it
		signals = append(signals, syscall.SIGHUP)
	}
	ctx, stop := signal.NotifyContext(context.Background(), signals...)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr))
}

// run is main without the process: it returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	// All output of this program passes here.
	secrets := &redact.Set{}
	secrets.AddEnviron(os.Environ(), nil)
	out, complaints := secrets.Writer(stdout, turns.Structure), secrets.Writer(stderr, nil)
	defer func() { _, _ = out.Flush(), complaints.Flush() }() // a reader that is gone needs nothing
	stdout, stderr = out, complaints
	if len(args) == 0 && os.Getenv("HOLON_SOCKET") != "" {
		args = []string{"serve"}
	}
	if len(args) == 0 {
		fmt.Fprint(stderr, usage)
		return exitUsage
	}
	name, args := args[0], args[1:]
	var err error
	switch name {
	case "serve":
		err = serve(ctx, args, secrets, stdout, stderr)
	case "run":
		err = runOnce(ctx, args, secrets, stdin, out, stderr)
	case "probe":
		err = probe(ctx, args, stdout)
	case "bridge":
		err = bridgeSockets(ctx, args, stderr)
	case "files":
		err = transfer.Serve(ctx, standardStreams{os.Stdin, os.Stdout})
	case "pod":
		err = runInPod(ctx, args, stdin, os.Stdout, stderr)
	case "debug":
		err = debug(args, stdin, stdout)
	case "version", "--version", "-v":
		fmt.Fprintln(stdout, "agentd", agentd.Version())
	case "help", "-h", "--help":
		if len(args) > 0 && name == "help" {
			err = usageError{
				fmt.Errorf("help takes no %q; agentd COMMAND --help lists the flags of a command", args[0]),
			}
			break
		}
		fmt.Fprint(stdout, usage)
	default:
		err = usageError{fmt.Errorf("there is no command %q; see agentd help", name)}
	}
	return report(err, stderr)
}

// usageError is a mistake on the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// exitError ends the program with a code after everything was reported.
type exitError int

func (e exitError) Error() string { return fmt.Sprintf("exit status %d", int(e)) }

// report prints err for a person and returns its exit code: this is the one
// table from errors to codes.
func report(err error, stderr io.Writer) int {
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return exitOK
	}
	if code, ok := errors.AsType[exitError](err); ok {
		return int(code)
	}
	for line := range strings.SplitSeq(err.Error(), "\n") {
		fmt.Fprintln(stderr, "agentd:", line)
	}
	if problems, ok := errors.AsType[config.Problems](err); ok && len(problems) > 0 {
		return exitUsage
	}
	if _, ok := errors.AsType[usageError](err); ok {
		return exitUsage
	}
	if _, ok := errors.AsType[noAnswer](err); ok {
		return exitRefused
	}
	if e, ok := errors.AsType[*responses.Error](err); ok {
		return exitCode(e)
	}
	return exitRefused
}

// exitCode is the exit code of a request that was refused or failed.
func exitCode(e *responses.Error) int {
	switch e.Code {
	case responses.CodeMissingCredentials, responses.CodeDiskFull, responses.CodeDraining, responses.CodeQueueFull:
		return exitRefused
	case responses.CodeCancelled:
		return exitInterrupted
	}
	if e.Type == responses.TypeInvalidRequest || e.Type == responses.TypeNotFound {
		return exitUsage
	}
	return exitFailed
}

// configure builds the configuration from defaults, environment and flags, in
// rising order of weight, and checks it. extra adds the flags of one command and
// returns what is to be done between parsing and checking, which finds the problems
// of these flags. Help that was asked for goes to stdout. The origins name the settings
// in later problems, as they do in those that are returned.
func configure(name string, cfg *config.Config, args []string, stdout io.Writer,
	extra func(*flag.FlagSet) func() config.Problems) (config.Origins, error) {
	envErr := cfg.LoadEnv()
	fs := flag.NewFlagSet("agentd "+name, flag.ContinueOnError)
	cfg.Bind(fs)
	parsed := extra(fs)
	if err := config.ParseFlags(fs, args, stdout); err != nil { // what follows the mistake was not read
		if errors.Is(err, flag.ErrHelp) || envErr == nil {
			return nil, err
		}
		return nil, errors.Join(envErr, err)
	}
	origins, all := cfg.Origins(fs), parsed()
	_ = origins.Name(all)
	// One report of everything that is wrong, wherever it was set.
	for _, err := range []error{envErr, origins.Name(cfg.Validate())} {
		problems, ok := errors.AsType[config.Problems](err)
		if err != nil && !ok {
			return nil, err
		}
		all = append(all, problems...)
	}
	if len(all) == 0 {
		return origins, nil
	}
	tools := agentd.CheckTools(*cfg) // else the start checks them
	_ = origins.Name(tools)
	return nil, append(all, tools...)
}

// newLog logs to stderr; stdout carries results only.
func newLog(stderr io.Writer, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
}
