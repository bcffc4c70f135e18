package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner/control"
	"holon/runner/control/client"
	"holon/runner/control/wire"
	"holon/runner/daemon"
	"holon/runner/present"
	"holon/runner/tui"
	"holon/state"
)

// tuiOptions are what `holon tui` was asked to do.
type tuiOptions struct {
	base
	agent, connect, token, tokenFile, display, altScreen, model string
	noAltScreen                                                 bool
}

func newTUICommand(streams Streams) *cobra.Command {
	o := &tuiOptions{base: base{streams: streams}}
	cmd := &cobra.Command{
		Use:   "tui",
		Short: "Talk to an agent, or work in a repository, at the terminal",
		Long: `Talk to an agent of the daemon, see its work items, tasks, children and workspaces,
and review and apply what it changes. In a git repository, and without --agent, the
conversation is a new session on a private copy of the repository. Without a daemon
it offers to start one that may use the repository. Leaving stops nothing.

/help lists the commands. With --connect it works over TCP with a daemon elsewhere.

Exit codes: 0 left, 1 the daemon does not work, 2 usage error, 4 it could not start.`,
		Example: `  holon tui
  holon tui --agent release
  holon tui --connect https://holon.example.org --token-file ~/.holon-token`,
		Args: argumentsOfUse,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.begin(args); err != nil {
				return err
			}
			return o.run(cmd.Context())
		},
	}
	o.define(cmd.Flags())
	return cmd
}

func (o *tuiOptions) define(f *pflag.FlagSet) {
	f.SortFlags = false
	f.StringVar(&o.agent, "agent", "", "`id` of the agent to talk to (default HOLON_AGENT_ID, else see above)")
	f.StringVar(&o.connect, "connect", "", "`URL` of a daemon elsewhere")
	f.StringVar(&o.token, "token", "", "`token` for --connect (default HOLON_CONTROL_TOKEN, which others cannot see)")
	f.StringVar(&o.tokenFile, "token-file", "", "`file` with the token")
	f.StringVarP(&o.model, "model", "m", "", "model of a daemon that is started, as `provider/name`")
	f.StringVar(&o.display, "display", present.Info.String(), "`mode`: info, verbose or debug")
	f.StringVar(&o.altScreen, "alt-screen", "auto", "`when` the alternate screen is used: auto, always or never")
	f.BoolVar(&o.noAltScreen, "no-alt-screen", false, "the same as --alt-screen never: the scrollback keeps all")
}

// run shows the conversation until the person leaves.
func (o *tuiOptions) run(ctx context.Context) error {
	show, err := o.shown()
	if err != nil {
		return err
	}
	if show.Target.Agent = cmp.Or(o.agent, o.AgentID); show.Target.Agent != "" {
		if err := state.CheckAgentID(show.Target.Agent); err != nil {
			return usage("--agent", fmt.Sprintf("%.40q is not the id of an agent", show.Target.Agent), "see holon agent list")
		}
	}
	repository := ""
	if o.connect == "" && show.Target.Agent == "" {
		if repository, err = repositoryHere(); err != nil {
			return err
		}
	}
	if show.Client, err = o.reach(ctx, repository); err != nil {
		return err
	}
	defer show.Client.Close()
	switch {
	case show.Target.Agent != "":
		_, err = show.Client.Status(ctx, show.Target.Agent)
	case repository != "":
		show.Target.Workspace = repository
	default:
		root, failed := show.Client.Root(ctx)
		show.Target.Agent, err = root.DefaultAgent, failed
	}
	if err != nil {
		return err
	}
	debug.SetGCPercent(20) // it stays open all day with little to do: memory counts more than the time to collect it
	debug.FreeOSMemory()   // what the start took
	o.streams.watch(true)  // an interruption ends nothing but the view
	return tui.Run(ctx, show)
}

// fits reports whether holon alone is to open the conversation: at a terminal, with a daemon or in a repository.
func (o *tuiOptions) fits(ctx context.Context) bool {
	if !o.streams.InTTY || !o.streams.OutTTY || o.begin(nil) != nil {
		return false
	}
	o.display, o.altScreen = present.Info.String(), "auto"
	if repository, err := repositoryHere(); err == nil && repository != "" {
		return true
	}
	socket, err := o.socketPath("", o.home)
	if err != nil {
		return false
	}
	status, err := daemon.New(daemon.Options{Home: o.home.Dir(), Socket: socket}).Status(ctx)
	return err == nil && status.State == daemon.Running
}

// shown checks how it is to be shown.
func (o *tuiOptions) shown() (show tui.Options, err error) {
	if !o.streams.InTTY || !o.streams.OutTTY {
		return show, usage("standard input", "holon tui needs a terminal",
			"give an agent work in scripts with: holon prompt --follow --agent ID")
	}
	if show.Display, err = present.ParseMode(o.display); err != nil {
		return show, usage("--display", err.Error(), "see holon tui --help")
	}
	if !slices.Contains([]string{"auto", "always", "never"}, o.altScreen) {
		return show, usage("--alt-screen", fmt.Sprintf("%.40q is not known", o.altScreen), "use auto, always or never")
	}
	if o.connect == "" && cmp.Or(o.token, o.tokenFile) != "" {
		return show, usage("--token", "is for --connect", "leave it out: the socket of this user's daemon needs none")
	}
	// zellij keeps no lines of the alternate screen for its own scrolling
	inline := o.noAltScreen || o.altScreen == "never" || o.altScreen == "auto" && os.Getenv("ZELLIJ") != ""
	show.Inline, show.NoColor, show.Hide = inline, o.streams.NoColor, o.streams.Secrets.Text
	show.In, show.Out, show.Environ = os.Stdin, os.Stdout, os.Environ()
	return show, nil
}

// reach returns a client of a daemon that works: of --connect, or of this home. Where none runs, a person in a
// repository, "" for none, is asked whether one is to be started.
func (o *tuiOptions) reach(ctx context.Context, repository string) (*client.Client, error) {
	if o.connect != "" {
		token, err := o.remoteToken()
		if err != nil {
			return nil, err
		}
		c, err := client.New(o.connect, token)
		if err == nil {
			_, err = c.Handshake(ctx)
		}
		return c, o.elsewhere(err)
	}
	b := &background{serveOptions: &serveOptions{base: o.base}}
	b.define(pflag.NewFlagSet("serve", pflag.ContinueOnError))
	if err := o.configure(b, repository); err != nil {
		return nil, err
	}
	status, err := b.Status(ctx)
	if err == nil && status.State == daemon.Ended && repository != "" {
		var sure bool
		if sure, err = o.offer(ctx, repository); err == nil && sure {
			if err = b.ready(ctx); err == nil {
				var started daemon.Started
				started, err = b.Start(ctx)
				status = started.Status
			}
		}
	}
	if err != nil {
		return nil, b.named(&b.host, err)
	}
	if status.State != daemon.Running || !status.Control.Healthy {
		shown := *b
		shown.streams.Out, shown.streams.OutTTY, shown.streams.Width = b.streams.Err, b.streams.ErrTTY, b.streams.ErrWidth
		if err := shown.showStatus(status); err != nil {
			return nil, err
		}
		return nil, exitError(exitFailure)
	}
	return client.Unix(b.Socket), nil
}

// elsewhere is an error of a daemon elsewhere, with the remedy for a person who named it.
func (o *tuiOptions) elsewhere(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok {
		return err
	}
	named := *e
	switch e.Code {
	case wire.CodeUnreachable:
		named.Hint = "start one there with holon serve --listen"
	case wire.CodeUnauthorized:
		named.Param, named.Hint = "--token", "give one of that daemon, such as that in run/control.token of its HOLON_HOME"
		if o.tokenFile != "" {
			named.Param = "--token-file"
		}
	}
	return &named
}

// configure sets up the daemon that is there, or would be started.
func (o *tuiOptions) configure(b *background, repository string) error {
	set := func(name, value string) error {
		if value == "" {
			return nil
		}
		return b.flags.Set(name, value)
	}
	if err := set("workspace-root", repository); err != nil {
		return err
	}
	if err := set("model", o.model); err != nil {
		return err
	}
	if err := b.complete(); err != nil {
		return b.named(&b.host, err)
	}
	return b.find()
}

// offer asks whether a daemon is to be started.
func (o *tuiOptions) offer(ctx context.Context, repository string) (bool, error) {
	o.streams.say("holon: no daemon runs. One that is started now may use " + visible.OneLine(repository, 4096) + ".")
	return o.streams.ask(ctx, "start it? [y/N] ")
}

// remoteToken is the token for a daemon elsewhere, "" for none.
func (o *tuiOptions) remoteToken() (string, error) {
	if o.tokenFile == "" {
		return cmp.Or(o.token, o.ControlToken), nil
	}
	return control.ReadToken(o.tokenFile)
}

// repositoryHere is the top of the git working tree of the working directory, "" for none.
func repositoryHere() (string, error) {
	dir, err := os.Getwd()
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", fmt.Errorf("find the working directory: %w", err)
	}
	for top := dir; ; top = filepath.Dir(top) {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top, nil
		} else if top == filepath.Dir(top) {
			return "", nil
		}
	}
}
