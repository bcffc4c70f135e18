// Command holon runs agents in containers on behalf of the person at the
// terminal. Each command is one file: options, flags to options, and a function
// that does the work with the options; exit codes are in one table (exit.go).
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"strconv"
	"syscall"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"holon/internal/redact"
	"holon/internal/visible"
	"holon/runner"
)

// version is set by the build: -ldflags "-X main.version=v1.2.3".
var version string

func main() {
	streams := systemStreams()
	hideStored(streams.Secrets)
	os.Exit(run(takeArguments(), streams))
}

// hideStored has the keys that are stored in HOLON_HOME taken out of all that is printed. A home that cannot be read is
// an error of the commands that need it.
func hideStored(secrets *redact.Set) {
	b := &base{}
	if b.begin(nil) == nil {
		_ = keysOf(b.home, secrets).RegisterSecrets()
	}
}

// run is main without the process: it returns the exit code.
func run(args []string, streams Streams) int {
	ctx, stop := interruptible(streams)
	defer stop()
	defer streams.flush()
	root := newRoot(streams)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	streams.flush()
	if code, ended := errors.AsType[exitError](err); ended && *streams.Failed != nil {
		report(*streams.Failed, streams, false) // the message may be what could not be written
		return int(code)
	}
	if err == nil {
		err = *streams.Failed
	}
	return report(err, streams, err != nil && inJSON(args))
}

// interruptible returns a context that the first SIGINT, SIGTERM, SIGQUIT or SIGHUP ends
// with runner.ErrInterrupted, and the reader's leaving a command that only watches. Later ones only print that the end
// is under way: it is bounded, and what it removes would stay behind otherwise.
func interruptible(streams Streams) (context.Context, func()) {
	ctx, cancel := context.WithCancelCause(context.Background())
	streams.Watching.left = func() { cancel(errReaderGone) }
	signals := make(chan os.Signal, 4)
	// A terminal that closes, or a reader of our output that leaves, must not
	// end the process before the container is gone.
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT, syscall.SIGPIPE)
	if !signal.Ignored(syscall.SIGHUP) { // as nohup leaves it
		signal.Notify(signals, syscall.SIGHUP)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for sig := range signals {
			if sig == syscall.SIGPIPE {
				continue // the write that caused it reports the error
			}
			if ctx.Err() != nil {
				if streams.watches() {
					continue
				}
				fmt.Fprintln(streams.Err, "holon: still stopping; what exists is being collected")
				continue
			}
			if !streams.watches() {
				if streams.ErrTTY { // the terminal shows ^C behind the status line
					fmt.Fprint(streams.Err, "\r\x1b[K")
				}
				fmt.Fprintln(streams.Err, "holon: stopping")
			}
			cancel(runner.ErrInterrupted)
		}
	}()
	return ctx, func() {
		signal.Stop(signals)
		close(signals)
		<-done
		streams.Watching.close()
		cancel(nil)
	}
}

func newRoot(streams Streams) *cobra.Command {
	root := &cobra.Command{
		Use:   "holon",
		Short: "Run coding agents in containers and review what they change",
		Long: `holon runs an agent in a container on a private copy of your files and hands
back its change as a patch. Nothing of yours is touched until you apply it.`,
		Example:           `  holon run "fix the failing test" && holon apply last`,
		PersistentPreRunE: exclusive,

		Version:       buildVersion(),
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o := (&tuiOptions{base: base{streams: streams}}); o.fits(cmd.Context()) {
				return o.run(cmd.Context())
			}
			return cmd.Help()
		},
	}
	root.SetVersionTemplate("holon {{.Version}}\n")
	root.SetIn(streams.In)
	root.SetOut(streams.Out)
	root.SetErr(streams.Err)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return flagError(cmd, err)
	})
	root.AddGroup(&cobra.Group{ID: "runs", Title: "Runs"}, &cobra.Group{ID: "agents", Title: "Agents"},
		&cobra.Group{ID: "settings", Title: "Settings"})
	addCommands(root, streams)
	addAliases(root)
	completeNames(root, completers(streams))
	root.SetHelpFunc(showHelp)
	root.SetHelpCommand(newHelpCommand())
	root.InitDefaultHelpCmd()
	root.InitDefaultCompletionCmd()
	completion, _, _ := root.Find([]string{"completion"}) // it was just added
	describeCompletion(completion)
	return root
}

// addCommands adds the commands by their groups. Those that are used rarely have none.
func addCommands(root *cobra.Command, streams Streams) {
	for group, commands := range map[string][]*cobra.Command{
		"runs": {
			newRunCommand(streams), newPsCommand(streams), newShowCommand(streams), newDiffCommand(streams),
			newApplyCommand(streams), newStopCommand(streams),
		},
		"agents": {
			newDaemonCommand(streams), newAgentCommand(streams), newPromptCommand(streams), newStatusCommand(streams),
			newWorkspaceCommand(streams), newTUICommand(streams),
		},
		"settings": {
			newConfigCommand(streams), newCredentialsCommand(streams), newModelsCommand(streams), newDoctorCommand(streams),
		},
		"": {
			newAttachCommand(streams), newCheckoutCommand(streams), newGCCommand(streams), newImageCommand(streams),
			newLogsCommand(streams), newReviewCommand(streams),
			newACPCommand(streams), newServeCommand(streams), newSessionCommand(streams), newQueueCommand(streams),
			newWorkCommand(streams), newMemoryCommand(streams),
			newTaskCommand(streams), newTailCommand(streams), newWakeCommand(streams),
			newTimerCommand(streams), newUICommand(streams), newNotifyCommand(streams), newTranscriptCommand(streams),
			newDebugCommand(streams), newRuntimeCommand(streams), newSkillsCommand(streams),
			newExportCommand(streams), newProvidersCommand(streams), newVersionCommand(streams), newManCommand(),
		},
	} {
		for _, cmd := range commands {
			cmd.GroupID = group
			root.AddCommand(cmd)
		}
	}
}

// flagError begins with the flag at fault, as all our errors do.
func flagError(cmd *cobra.Command, err error) error {
	if cmd.HasSubCommands() {
		if wrong := noCommand(cmd, cmd.Flags().Args()); wrong != nil { // the flag is of a command that does not exist
			return wrong
		}
	}
	flag, what := "", err.Error()
	if e, ok := errors.AsType[*pflag.NotExistError](err); ok {
		flag, what = "--"+e.GetSpecifiedName(), "there is no such flag"+similarFlag(cmd, e.GetSpecifiedName())
		if e.GetSpecifiedShortnames() != "" {
			flag = "-" + e.GetSpecifiedName()
		}
		if first := e.GetSpecifiedName(); first >= "0" && first <= "9~" {
			return usage(flag, "is taken as a flag", "write -- before an argument that begins with -; "+seeHelp(cmd))
		}
	} else if e, ok := errors.AsType[*pflag.ValueRequiredError](err); ok {
		flag, what = "--"+e.GetSpecifiedName(), "needs a value"
	} else if e, ok := errors.AsType[*pflag.InvalidValueError](err); ok {
		flag, what = "--"+e.GetFlag().Name, fmt.Sprintf("%q is %s", visible.OneLine(e.GetValue(), 80), notOfType(e))
	}
	return usage(flag, what, seeHelp(cmd))
}

// notOfType says what a value of a flag is not. Errors of Go's parsers name functions that no one called.
func notOfType(e *pflag.InvalidValueError) string {
	switch e.GetFlag().Value.Type() {
	case "int", "int64", "uint":
		if errors.Is(e.Unwrap(), strconv.ErrRange) {
			return "out of range"
		}
		return "not a whole number"
	case "float64":
		return "not a number"
	case "bool":
		return "neither true nor false"
	}
	return "not valid: " + e.Unwrap().Error()
}

func newVersionCommand(streams Streams) *cobra.Command {
	asJSON := false
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version",
		Args:  argumentsOfUse,
		RunE: func(*cobra.Command, []string) error {
			if asJSON {
				return printJSON(streams, struct {
					Version string `json:"version"`
					Go      string `json:"go"`       // that built it
					Place   string `json:"platform"` // system and processor
				}{buildVersion(), runtime.Version(), runtime.GOOS + "/" + runtime.GOARCH})
			}
			_, err := fmt.Fprintln(streams.Out, "holon", buildVersion())
			return err
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return cmd
}

// buildVersion returns what the linker set, else what Go recorded.
func buildVersion() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" && info.Main.Version != "(devel)" {
		return info.Main.Version
	}
	return "devel"
}

// newManCommand makes `holon man`, by which make man writes the pages.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write manual pages of all commands to a directory",
		Hidden: true,
		Args:   argumentsOfUse,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the directory of the pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			return doc.GenManTree(root, &doc.GenManHeader{Section: "1", Source: "holon", Manual: "Holon"}, args[0])
		},
	}
}
