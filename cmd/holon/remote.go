package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/daemon"
	"holon/state"
	"holon/state/ledger"
)

// remote is what the commands share that talk to a daemon about an agent.
type remote struct {
	base
	Format string // of --output-format, where a command has it
	Agent  string // "": the daemon's default agent

	byArgument bool   // the first argument is an agent
	agentFrom  string // the argument, the flag or the variable that names the agent; "": nothing does

	view   *progress    // of the message that is watched
	events *agentEvents // of it, nil when they are not printed
	*client.Client
}

// remoteCommand makes a command that asks the daemon about the agent of --agent.
func remoteCommand(streams Streams, use, short string, do func(context.Context, *remote) error) *cobra.Command {
	r := &remote{base: base{streams: streams}}
	cmd := r.command(use, short, func(ctx context.Context) error { return r.ask(ctx, do) })
	f := cmd.Flags()
	f.StringVar(&r.Agent, "agent", "", "`id` of the agent (default HOLON_AGENT_ID, else the daemon's)")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if len(args) == 1 && len(argumentNames(cmd)) == 0 && state.CheckAgentID(args[0]) == nil {
			return r.name(args[0])
		}
		return argumentsOfUse(cmd, args)
	}
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if f.Changed("agent") && r.Agent == "" {
			return usage("--agent", "is empty", "give the id of an agent, or leave it out")
		}
		if limit, err := f.GetInt("limit"); err == nil { // the command has that flag
			return checkRange("--limit", limit, 1, view.MaxLimit)
		}
		return nil
	}
	return cmd
}

// agentCommand is remoteCommand for commands whose first argument, if there is one, is an agent.
func agentCommand(streams Streams, use, short string, do func(context.Context, *remote) error) *cobra.Command {
	r := &remote{base: base{streams: streams}, byArgument: true}
	flag := ""
	cmd := r.command(use, short, func(ctx context.Context) error {
		r.args = withAgent(r.args, flag)
		return r.ask(ctx, do)
	})
	if names := argumentNames(cmd); len(names) == 0 || names[0] != "AGENT" {
		return cmd // of all agents
	}
	cmd.Flags().StringVar(&flag, "agent", "", "`id` of the agent, instead of the argument")
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("agent") && flag == "" {
			return usage("--agent", "is empty", "give the id of an agent, or leave it out")
		}
		if names := argumentNames(cmd); flag != "" && len(args) == len(names) {
			return usage("--agent", "the agent is named twice", "leave out the flag or the argument")
		}
		return argumentsOfUse(cmd, withAgent(args, flag))
	}
	return cmd
}

// withAgent are the arguments of a command whose first one is an agent, where a flag may name it.
func withAgent(args []string, flag string) []string {
	if flag == "" {
		return args
	}
	return append([]string{flag}, args...)
}

// name takes an argument of a command without arguments for the agent.
func (r *remote) name(agent string) error {
	if r.Agent != "" && r.Agent != agent {
		return usage("--agent", "the agent is named twice", "leave out the flag or the argument")
	}
	r.Agent = agent
	return nil
}

// ask connects, and does what a command is for.
func (r *remote) ask(ctx context.Context, do func(context.Context, *remote) error) error {
	if err := r.connect(); err != nil {
		return err
	}
	defer r.Close()
	defer func() { r.streams.saySkew(r.Version()) }()
	return r.explain(ctx, do(ctx, r))
}

// saySkew says that the daemon is of another version than this command, which may be why something is not as expected.
func (s Streams) saySkew(v string) {
	if v != "" && v != buildVersion() {
		s.say(fmt.Sprintf("holon: the daemon is holon %s and this command %s; replace it with: holon daemon restart",
			visible.OneLine(v, 100), buildVersion()))
	}
}

// streaming reports whether events are printed as they happen.
func (r *remote) streaming() bool { return r.Format == formatStream }

// connect finds the socket. The daemon is asked by the first call.
func (r *remote) connect() (err error) {
	path, err := r.socketPath("", r.home)
	if err != nil {
		return err
	}
	r.agentFrom = "--agent"
	if r.Agent == "" {
		r.Agent, r.agentFrom = r.AgentID, "HOLON_AGENT_ID"
	}
	if r.byArgument && len(r.args) > 0 {
		r.agentFrom = "AGENT"
	} else if r.Agent == "" {
		r.agentFrom = ""
	}
	r.Client = client.Unix(path)
	return nil
}

// socketPath is where the control socket is: the flag, the variable, or beneath
// the home.
func (h *host) socketPath(flag string, home state.Home) (string, error) {
	param, path := "--socket", flag
	if path == "" {
		param, path = "HOLON_SOCKET_PATH", h.SocketPath
	}
	if path == "" {
		return daemon.SocketPath(home.Dir()), nil
	}
	abs, err := filepath.Abs(path)
	if err != nil {
		return "", usage(param, err.Error(), "give an absolute path")
	}
	return abs, nil
}

// explain says of a daemon that is not there just that, names the agent by what
// it was given with, or else by its id, and names the next command where the daemon did not.
func (r *remote) explain(ctx context.Context, err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return err
	}
	if e.Param == "agent" || e.Param == "agent_id" {
		e.Param = cmp.Or(r.agentFrom, r.defaultAgent(ctx))
	}
	if e.Code == wire.CodeUnreachable && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ECONNREFUSED)) {
		return &state.Error{Code: e.Code, Message: e.Message, Hint: e.Hint}
	}
	if hint := r.nextCommand(e); hint != "" && e.Hint == "" {
		return &state.Error{Code: e.Code, Param: e.Param, Message: e.Message, Hint: hint, Err: e.Err}
	}
	return err
}

// defaultAgent is the subject of an error that is of the daemon's default agent.
func (r *remote) defaultAgent(ctx context.Context) string {
	root, err := r.Root(ctx)
	if err != nil {
		return "agent"
	}
	return "agent " + root.DefaultAgent
}

// nextCommand is what to try after an error of the ledger, which knows no commands.
func (r *remote) nextCommand(e *state.Error) string {
	switch {
	case e.Code != ledger.CodeNotFound && e.Code != ledger.CodeExists:
		return ""
	case e.Param == "message":
		return "see: holon queue list" + r.agentFlag()
	case e.Param == "timer":
		return "see: holon timer list" + r.agentFlag()
	}
	return "see: holon agent list"
}

// agentFlag is the flag with which another command is about the same agent, with a space before it; "" for the default.
func (r *remote) agentFlag() string {
	if r.Agent == "" {
		return ""
	}
	return " --agent " + r.Agent
}

// named is the agent of the argument, else of the flag.
func (r *remote) named() string {
	if len(r.args) > 0 {
		return r.args[0]
	}
	return r.Agent
}
