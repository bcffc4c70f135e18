package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/responses/turns"
	"holon/runner/daemon"
	"holon/runner/settings"
)

func newDaemonCommand(streams Streams) *cobra.Command {
	start := daemonCommand(streams, "start", "Start the daemon, unless it runs",
		func(ctx context.Context, b *background) error { return b.launch(ctx, (*daemon.Daemon).Start) })
	start.Long = `Start holon serve in the background and return when it is ready. It takes the
options of holon serve. When a daemon with the same options runs it is left alone;
one with other options is not touched either: see holon daemon restart.`
	restart := daemonCommand(streams, "restart", "Stop the daemon, if it runs, and start it with these options",
		func(ctx context.Context, b *background) error { return b.launch(ctx, (*daemon.Daemon).Restart) })
	restart.Long = `Replace the daemon by a process with the options that are given here and set; those
that it was started with before do not count. Queues, waits and timers are kept,
and a turn that is going on is taken up again.`
	status := daemonCommand(streams, "status", "Say whether the daemon runs, and how it is", runDaemonStatus)
	status.Long = `Say whether the daemon runs, what it does, and what went wrong last. Options are
those that its own are compared with. It reads and changes nothing.

Exit codes: 0 it runs and is healthy, 1 it does not.`
	return group("daemon", "Keep agents alive in the background", "", start,
		daemonCommand(streams, "stop", "Stop the daemon", runDaemonStop), status, restart,
		newDaemonLogsCommand(streams), newDaemonBackupCommand(streams), newDaemonRestoreCommand(streams))
}

// background is what the commands of the daemon work with.
type background struct {
	*serveOptions
	*daemon.Daemon
}

// daemonCommand makes a command with the options of `holon serve`.
func daemonCommand(streams Streams, use, short string, do func(context.Context, *background) error) *cobra.Command {
	b := &background{serveOptions: &serveOptions{base: base{streams: streams}}}
	cmd := b.command(use, short, func(ctx context.Context) error {
		err := b.complete()
		if err == nil {
			err = b.find()
		}
		if err == nil {
			err = do(ctx, b)
		}
		return b.named(&b.host, err)
	})
	b.define(cmd.Flags())
	return cmd
}

// find makes what starts and finds the daemon.
func (b *background) find() error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	args, env := b.invocation()
	b.Daemon = daemon.New(daemon.Options{Home: b.home.Dir(), Socket: b.Socket, Fingerprint: b.fingerprint(),
		Program: self, Args: args, Env: env})
	return nil
}

// ready checks what the daemon would be refused for, while a person sees the error,
// and makes its home.
func (b *background) ready(ctx context.Context) error {
	if err := b.makeHome(); err != nil {
		return err
	}
	if _, err := findAgentd(b.Agentd); err != nil {
		return err
	}
	if err := b.checkModels(modelsOf(b.home, &b.Settings, keysOf(b.home, nil), nil)); err != nil {
		return err
	}
	if err := b.checkImage(ctx); err != nil {
		return err
	}
	return b.find()
}

// launch starts the daemon with do, and shows how it is.
func (b *background) launch(ctx context.Context, do func(*daemon.Daemon, context.Context) (daemon.Started,
	error)) error {
	if err := b.ready(ctx); err != nil {
		return err
	}
	s, err := do(b.Daemon, ctx)
	return b.show(struct {
		Already bool          `json:"already_running"`
		Status  daemon.Status `json:"status"`
	}{s.Already, s.Status}, err, func() error {
		what := "started"
		if s.Already {
			what = "runs already"
		}
		fmt.Fprintf(b.streams.Err, "holon: the daemon %s, as process %d\n", what, s.Status.PID)
		b.streams.saySkew(s.Status.Version)
		if off := unenforced(s.Status.Engine); off != "" {
			fmt.Fprintln(b.streams.Err, "holon: the engine of agents is "+s.Status.Engine+off)
		}
		return nil
	})
}

func runDaemonStop(ctx context.Context, b *background) error {
	stopped, err := b.Stop(ctx)
	return b.show(stopped, err, func() error {
		fmt.Fprintln(b.streams.Err, "holon: "+map[string]string{daemon.NotRunning: "the daemon does not run",
			daemon.Graceful: "the daemon has ended", daemon.Terminated: "the daemon has ended, by SIGTERM",
			daemon.Killed: "the daemon was killed: it did not end"}[stopped.How])
		return nil
	})
}

func runDaemonStatus(ctx context.Context, b *background) error {
	s, err := b.Status(ctx)
	if s.ConfigMatch != nil && !*s.ConfigMatch && !b.compares() {
		s.ConfigMatch = nil // there is nothing that it was to match
	}
	err = b.show(s, err, func() error { return b.showStatus(s) })
	if err == nil && !(s.State == daemon.Running && s.Control.Healthy) {
		return exitError(exitFailure)
	}
	return err
}

// compares reports whether the command line has options that a daemon may have or not.
func (b *background) compares() (yes bool) {
	b.flags.Visit(func(f *pflag.Flag) { yes = yes || f.Name != "json" && f.Name != "socket" })
	return yes
}

// remedies are the next commands to try.
var remedies = map[daemon.State]string{
	daemon.Ended:        "start it with: holon daemon start",
	daemon.NotAnswering: "look at: holon daemon logs; replace it with: holon daemon restart",
	daemon.Foreign:      "choose another path with --socket",
}

func (b *background) showStatus(s daemon.Status) error {
	pid, config := "", ""
	if s.PID > 0 {
		pid = strconv.Itoa(s.PID)
	}
	if s.ConfigMatch != nil {
		config = "these options"
		if !*s.ConfigMatch {
			config = "other options than these; see holon daemon restart"
		}
	}
	pairs := []string{"daemon", string(s.State), "pid", pid, "home", s.HomeDir, "socket", s.SocketPath,
		"http", s.HTTPAddr, "advertised", s.AdvertiseURL,
		"started", b.streams.when(s.StartedAt), "version", s.Version + otherVersion(s.Version), "engine", s.Engine + unenforced(s.Engine),
		"default agent", s.DefaultAgent, "default model", s.DefaultModel, "runs with", config}
	if a := s.Activity; a != nil {
		pairs = append(pairs, "activity",
			fmt.Sprintf("%s: %s, %d processing, %d waiting, %s", a.State, count(a.ActiveAgentCount, "agent"),
				a.ProcessingAgentCount, a.WaitingAgentCount, count(a.QueuedMessageCount, "message")+" queued"))
	}
	pairs = append(pairs, "problem", s.Control.Problem)
	if f := s.LastFailure; f != nil {
		when := b.streams.when(turns.At(f.OccurredAt))
		of := f.Phase
		if f.AgentID != "" {
			of = "agent " + f.AgentID
		}
		pairs = append(pairs, "last failure", fmt.Sprintf("%s, %s: %s", when, of, f.Summary),
			"look at", cmp.Or(f.Hint, "holon daemon logs"))
	}
	if len(s.Stale) > 0 {
		pairs = append(pairs, "stale", strings.Join(s.Stale, ", "))
	}
	return facts(b.streams, append(pairs, "next", remedies[s.State])...)
}

// unenforced says, behind the name of an engine, that it confines nothing.
func unenforced(engine string) string {
	if engine != settings.EngineLocal {
		return ""
	}
	return ", not_enforced: it confines nothing"
}

// otherVersion says, behind the version of a daemon, that this program has another.
func otherVersion(v string) string {
	if v == "" || v == buildVersion() {
		return ""
	}
	return ", and this command is " + buildVersion() + "; see holon daemon restart"
}

func newDaemonLogsCommand(streams Streams) *cobra.Command {
	tail, follow := 0, false
	cmd := daemonCommand(streams, "logs",
		"Show the end of the daemon's log, and its last failure",
		func(ctx context.Context, b *background) error { return runDaemonLogs(ctx, b, tail, follow) })
	cmd.Flags().IntVar(&tail, "tail", 80, "`number` of lines")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what the daemon writes, until interrupted")
	cmd.MarkFlagsMutuallyExclusive("follow", "json")
	return cmd
}

func runDaemonLogs(ctx context.Context, b *background, tail int, follow bool) error {
	if err := checkRange("--tail", tail, 0, daemon.MaxLines); err != nil {
		return err
	}
	logs, err := b.Logs(tail)
	if err != nil {
		return err
	}
	if b.JSON {
		return printJSON(b.streams, logs)
	}
	pairs := []string{"log", logs.LogPath, "metadata", logs.MetadataPath, "failures", logs.FailurePath}
	if f := logs.Failure; f != nil {
		pairs = append(pairs, f.Phase+" failure", b.streams.failure(f))
	}
	shown := b.streams.ofErr()
	shown.Out, shown.OutTTY = b.streams.Err, b.streams.ErrTTY
	if err := facts(shown, pairs...); err != nil {
		return err
	}
	for _, line := range logs.Lines {
		if _, err := fmt.Fprintln(b.streams.Out, b.streams.oneLine(line, 4096)); err != nil {
			return err
		}
	}
	if !follow {
		return nil
	}
	b.streams.watch(true)
	for line, err := range b.Follow(ctx, logs) {
		if err == nil {
			_, err = fmt.Fprintln(b.streams.Out, b.streams.oneLine(line, 4096))
		}
		if err != nil {
			return err
		}
	}
	return context.Cause(ctx)
}
