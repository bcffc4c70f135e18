package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/gateway"
	"holon/runner/modelaccess"
	"holon/runner/oneshot"
	"holon/runner/settings"
	"holon/runner/workspace"
	"holon/runner/workspace/git"
	"holon/state"
	"holon/state/files"
)

type runOptions struct {
	base
	configured
	checked
	asking
	Review       string // a file of comments; "": none
	Prompt       string
	ignoredNamed bool         // by flags
	Continue     string       // a run, or "" where none is continued
	parent       *files.Entry // that run
	Workspace    string
	Output       string
	Input        string
	MCPConfig    string
	Name         string
	RequireTools bool
	Env          []string
	EnvFile      []string
	Secret       []string
	Keep         bool
	Detach       bool   // the run goes on without this command
	Detached     bool   // this is the process of such a run
	Format       string // of what is printed
	Quiet        bool

	agent, template string // of the daemon, which does it instead
	createAgent     bool
}

func newRunCommand(streams Streams) *cobra.Command {
	opts := &runOptions{base: base{streams: streams}}
	defaults := settings.Default()
	cmd := &cobra.Command{
		Use:   "run [RUN] PROMPT",
		Short: "Run an agent on a private copy of the workspace",
		Long: `Run an agent in a container on a private copy of the workspace and collect its
change as a patch. The workspace itself is not touched.

PROMPT is the task. Standard input that is not a terminal is added to it; "-" or no
PROMPT takes all of it from there. At a terminal, no PROMPT opens your EDITOR.

Settings come from flags, then HOLON_* variables, then ` + settings.ProjectFile + ` of the
workspace, then config.json of HOLON_HOME (see holon config).

With --continue the run goes on where an earlier one ended, RUN or else the last of
this workspace: in its conversation, with its change on top of your files, with its
model and image. Its result is the sum of both. An only argument that names a run is
RUN; the prompt comes from standard input or your EDITOR then. RUN may also stand
behind the prompt, or be given as --continue=RUN.

With --agent the task goes to an agent that lives in the daemon (see holon daemon):
it is queued, done in a turn of that agent, and its answer printed.

With --check the result counts only if a command succeeds with it, in a new container
without a model and without a network, on a tree of its own. --best-of makes several
attempts and ranks those that pass by how little they change.

Exit codes: 0 completed, 1 failed, 2 usage error, 3 needs the operator,
4 refused or could not start, 124 out of time, 130 cancelled.`,
		Example: `  holon run "fix the failing test"
  holon run --model scripted/demo --json "try it without a key"
  holon run --continue "now add a test"
  git diff | holon run "review this change"`,
		RunE: func(cmd *cobra.Command, args []string) error { return startRun(cmd, args, opts) },
	}
	f := cmd.Flags()
	f.SortFlags = false
	f.StringP("model", "m", "", "model as `provider/name` (default "+settings.DefaultModel+" where there is a key for it)")
	f.StringSlice("model-fallbacks", nil, "`models` to ask, in order, when the first fails before it says anything")
	f.StringP("image", "i", defaults.Image, "container `image`")
	opts.asking.flags(f)
	f.String("engine", defaults.Engine, "auto, docker, kubernetes, or local, which confines nothing")
	f.StringVar(&opts.Workspace, "workspace", "", "`directory` to work on (default the current one)")
	f.Bool("include-dirty", defaults.IncludeDirty, "start from the files as they are, with uncommitted changes")
	f.StringArray("include-ignored", nil, "`pattern` of files that git ignores and that the agent gets copies of, "+
		"such as node_modules")
	f.StringVar(&opts.Output, "output", "", "`directory` for the results (default below HOLON_HOME)")
	f.StringVar(&opts.Input, "input", "", "`directory` of files that the agent may read")
	f.StringArrayVar(&opts.Env, "env", nil,
		"`NAME=VALUE` for commands; NAME alone: your value")
	f.StringArrayVar(&opts.EnvFile, "env-file", nil, "`file` with a NAME=VALUE, or a NAME, on each line")
	f.StringArrayVar(&opts.Secret, "secret", nil,
		"`NAME` of a variable for commands whose value is shown nowhere, as of those that end in _TOKEN, _KEY, "+
			"_SECRET and the like")
	timeVar(f, &defaults.Timeout, "timeout", "wall `time` of the turn, such as 90m")
	f.Int("max-rounds", defaults.MaxRounds, "model rounds after which the turn ends")
	f.Int("max-tool-calls", 0, "calls of tools after which the turn ends (default no bound)")
	f.String("max-output-bytes", string(defaults.MaxOutput),
		"how much the turn may leave in its output directory, its streams included")
	f.Int64("max-requests", 0, "requests to providers after which the turn ends")
	f.Int64("max-tokens", 0, "tokens, sent and answered, after which the turn ends")
	f.String("max-cost", "", "`amount` after which the turn ends; needs the prices of the models")
	f.String("memory", "", "memory of the container, such as 4g (default 2g)")
	f.Float64("cpus", 0, "CPUs of the container (default 4, or all of a\nsmaller machine)")
	f.String("disk", string(defaults.RunDisk), "how much the run may write to disk")
	f.String("network", defaults.Network, "`network` of the container; anything but none is recorded as looser")
	confinementFlags(f)
	f.StringArray("service", nil, "`NAME=IMAGE` of a service that the agent reaches by its name, with more after commas: "+
		"VARIABLE=VALUE, and /DIRECTORY that it may write")
	f.StringArray("skill", nil, "`directory`, or name of an installed skill, that the agent may use")
	f.StringVar(&opts.MCPConfig, "mcp-config", "",
		"`file` with MCP servers that the agent may use")
	f.StringVar(&opts.Name, "name", "", "`name` for the run, for people")
	f.BoolVar(&opts.RequireTools, "require-tools", false,
		"refuse an image without what the files need, such as go for go.mod")
	opts.checked.flags(f)
	f.StringVarP(&opts.Continue, "continue", "c", "", "go on with this `RUN`, or the last one here")
	f.Lookup("continue").NoOptDefVal = files.Last
	f.StringVar(&opts.Review, reviewFlag, "", "with --continue: `file` with comments on the change, instead of a prompt")
	f.Lookup(reviewFlag).NoOptDefVal = "-"
	f.BoolVarP(&opts.Detach, "detach", "d", false, "print the run's id when it works, and return")
	f.BoolVar(&opts.Detached, detachedFlag, false, "")
	_ = f.MarkHidden(detachedFlag) // fails only for a flag that is not there
	f.BoolVar(&opts.Keep, "keep", false, "keep the session's directories and the container's log")
	f.BoolVar(&opts.JSON, "json", false, "print the run's manifest instead of the answer")
	f.StringVar(&opts.Format, "output-format", "",
		"`format`: text (the default), json (as --json), or stream-json, each event on a line")
	f.BoolVarP(&opts.Quiet, "quiet", "q", false, "show no progress")
	f.StringVar(&opts.agent, "agent", "", "`id` of an agent of the daemon, to do it instead")
	f.BoolVar(&opts.createAgent, "create-agent", false, "with --agent: make the agent when there is none")
	f.StringVar(&opts.template, "template", "", "with --create-agent: `name` of a template, or its directory")
	rarely(f, "model-fallbacks", "engine", "include-dirty", "include-ignored", "output", "input", "env-file", "secret",
		"max-rounds", "max-tool-calls", "max-output-bytes", "max-requests", "max-tokens", "max-cost", "memory", "cpus",
		"disk", "network", "service", "mcp-config", "allow-host", "user", "runtime", "link", "accept-weaker",
		"require-tools", "skill", "keep", "reasoning-effort", "instructions", "output-schema", reviewFlag, "create-agent",
		"template")
	return cmd
}

// startRun is the command: a run of its own, here or in another process, or a task for an agent that lives.
func startRun(cmd *cobra.Command, args []string, opts *runOptions) error {
	given := cmd.Flags().Changed
	opts.ignoredNamed = given("include-ignored")
	switch {
	case given("agent") && given("continue"):
		return usage("--continue", "is for a run of its own", "leave it out: an agent remembers its conversation")
	case given("agent") && (given("check") || given("best-of") || given("models")):
		return usage("--agent", "cannot be combined with a check or attempts", "leave --agent out: they are for runs")
	case given("agent") && opts.Detach:
		return usage("--detach", "is for a run of its own", "use holon prompt --agent ID, which returns at once")
	case given("agent"):
		return runOnAgent(cmd, args, opts)
	case given(reviewFlag) && !given("continue"):
		return usage("--"+reviewFlag, "is of a run", "name it with --continue=RUN; see holon review --help")
	case given("create-agent"):
		return usage("--create-agent", "is for an agent that lives", "name one with --agent")
	case given("template"):
		return usage("--template", "is for an agent that lives", "name one with --agent")
	}
	// A heap of 3 MB would be collected three times before the container starts. From the first collection on, memory
	// counts as usual.
	usual := debug.SetGCPercent(400)
	runtime.AddCleanup(new([16]byte), func(percent int) { debug.SetGCPercent(percent) }, usual)
	err := opts.complete(cmd, args)
	if err == nil && opts.Detach {
		err = opts.detach(cmd)
	} else if err == nil {
		err = runRun(cmd.Context(), opts)
	}
	return opts.named(&opts.host, err)
}

// maxRunName bounds the name of a run, in bytes: it stands in tables, and in the name of a branch.
const maxRunName = 80

// checkRunName refuses a name that would not select the run as it is shown.
func checkRunName(name string) error {
	shown := visible.OneLine(name, maxRunName)
	switch {
	case name == files.Last:
		return usage("--name", fmt.Sprintf("%q names runs already", name), "choose another name")
	case strings.HasPrefix(name, "run_"):
		return usage("--name", fmt.Sprintf("%q begins like the id of a run", shown), "choose another name")
	case len(name) > maxRunName:
		return usage("--name", fmt.Sprintf("%q has %d bytes", shown, len(name)),
			fmt.Sprintf("write %d at most", maxRunName))
	case shown != name:
		return usage("--name", visible.Name(name)+" cannot be shown as it is",
			"leave out control characters, and spaces around it")
	}
	return nil
}

// complete merges the layers of settings and checks the arguments.
func (o *runOptions) complete(cmd *cobra.Command, args []string) (err error) {
	if err := o.checkFlags(); err != nil {
		return err
	}
	if err := o.checkAttempts(cmd.Flags()); err != nil {
		return err
	}
	if err := o.begin(args); err != nil {
		return err
	}
	if args, err = o.findParent(cmd, o.home, args); err != nil {
		return err
	}
	if o.Workspace, err = filepath.Abs(o.Workspace); err != nil {
		return usage("--workspace", err.Error(), "")
	}
	if err := o.merge(&o.host, o.home, o.Workspace, cmd.Flags()); err != nil {
		return err
	}
	if err = o.agree(cmd.Context()); err != nil {
		return err
	}
	if err = o.findSkills(); err != nil {
		return err
	}
	if o.Prompt, err = o.readTask(cmd, args); err != nil {
		return o.needsPrompt(err)
	}
	if o.Env, err = environ(o.EnvFile, o.Env); err != nil {
		return err
	}
	if err := o.hideSecrets(); err != nil {
		return err
	}
	if err := o.asking.read(o.home); err != nil {
		return err
	}
	return o.findFiles()
}

// checkFlags refuses what is wrong by itself.
func (o *runOptions) checkFlags() error {
	if err := checkFormat(&o.Format, &o.JSON); err != nil {
		return err
	}
	if o.Detach && o.Format == formatStream {
		return usage("--detach", "cannot be combined with the events of the run", "follow them with holon logs --events -f")
	}
	return checkRunName(o.Name)
}

// findFiles makes the paths of files absolute, and refuses those that cannot be used.
func (o *runOptions) findFiles() (err error) {
	for _, f := range []struct {
		flag string
		path *string
	}{{"--output", &o.Output}, {"--input", &o.Input}, {"--mcp-config", &o.MCPConfig}} {
		if *f.path == "" {
			continue
		}
		if *f.path, err = filepath.Abs(*f.path); err == nil && f.flag == "--input" {
			*f.path, err = existingDir(*f.path)
		}
		if err != nil {
			return usage(f.flag, err.Error(), "name an existing directory")
		}
	}
	return checkMCPConfig(o.MCPConfig)
}

// existingDir resolves links: an engine does not mount what lies behind one.
func existingDir(path string) (string, error) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		return "", err
	}
	if info, err := os.Stat(real); err != nil || !info.IsDir() {
		return "", fmt.Errorf("%s is not a directory", path)
	}
	return real, nil
}

func budgetOf(b settings.ModelBudget) gateway.Budget {
	return gateway.Budget{MaxTokens: b.MaxTokens, MaxRequests: b.MaxRequests, MaxCost: gateway.Amount(b.MaxCost)}
}

func runRun(ctx context.Context, o *runOptions) error {
	home, err := o.makeHome(ctx)
	if err != nil {
		return err
	}
	view := newProgress(o.streams, o.Quiet)
	view.json = o.Format != formatText
	defer view.end()
	log := slog.New(&noticeHandler{progress: view})
	o.chooseImage(ctx)
	shot, err := o.shot(home, log)
	if err != nil {
		return err
	}
	models := modelsOf(home, &o.Settings, keysOf(home, o.streams.Secrets), log)
	if len(o.Models) > 0 {
		o.Model = o.Models[0]
	}
	if err := o.needModel(models); err != nil {
		return err
	}
	if o.BestOf > 1 {
		return o.runBest(ctx, &attempts{runOptions: o, home: home, models: models, log: log, view: view})
	}
	access, err := openModels(ctx, models, o.Refs(), &shot.Session)
	if err != nil {
		return err
	}
	defer access.Close()
	shot.Session.AgentEnv = append(shot.Session.AgentEnv, o.agentLimits(o.streams.ErrTTY)...)
	eng, err := o.openEngine(&o.Loaded.Settings, view.notices(), home)
	if err != nil {
		return err
	}
	defer eng.Close()
	shot.Session.Engine = eng
	if eng.Name() == "docker" {
		shot.Workspace.ContainerObjects = runner.ObjectsPath
	}
	shot.Session.Telemetry = openTelemetry(ctx, o.streams.Secrets, log)
	defer shot.Session.Telemetry.Close()
	view.announce(eng.Name(), shot, o.parent)
	events := &runEvents{view, eventLines{streams: o.streams}}
	switch {
	case o.Detached:
		shot.Watch = &leaving{progress: view, id: shot.ID}
	case o.Format == formatStream:
		shot.Watch = events
	default:
		shot.Watch = view
	}
	manifest, err := shot.Do(ctx)
	view.end()
	if err != nil {
		return err
	}
	if o.Format == formatStream {
		return showClosing(o.streams, manifest, shot.ResultDir(), view, events.finish(manifest))
	}
	return showEnd(o.streams, o.JSON, manifest, shot.ResultDir(), view)
}

// shot is the run with all that needs no engine and no model.
func (o *runOptions) shot(home state.Home, log *slog.Logger) (*oneshot.Run, error) {
	shot := &oneshot.Run{
		ID: state.NewRunID(), Home: home, Name: o.Name, OutputDir: o.Output, Keep: o.Keep, Version: buildVersion(),
		Turn:      runner.NewTurn("", o.Prompt),
		Workspace: o.source(home), Check: o.check(), RequireTools: o.RequireTools,
		Blame: (&settingError{loaded: o.Loaded, docker: o.DockerHost}).name,
		Session: runner.Config{
			Image: o.Image, Secrets: o.streams.Secrets, Labels: map[string]string{runner.LabelHome: home.Dir()},
			Log:         log,
			Files:       runner.Files{Skills: o.Skills, InputDir: o.Input},
			Reach:       runner.Reach{MCPConfig: o.MCPConfig},
			Environment: runner.Environment{Env: o.Env, SecretEnv: o.Secret},
		},
	}
	req, limits := shot.Turn.Request, shot.Turn.Limits()
	o.asking.of(req)
	req.MaxToolCalls, req.MaxOutputTokens = runner.Optional(o.MaxToolCalls), runner.Optional(o.MaxOutputTokens)
	limits.MaxRounds, limits.TimeoutMS, shot.Turn.Budget = o.MaxRounds, o.Timeout.Milliseconds(), budgetOf(o.Budget)
	if o.parent != nil {
		if err := shot.Continue(o.parent); err != nil {
			return nil, err
		}
	}
	var err error
	if limits.MaxOutputBytes, err = o.MaxOutput.Bytes(); err != nil {
		return nil, err
	}
	if shot.Quota, err = o.quota(); err != nil {
		return nil, err
	}
	if err := confine(&o.Settings, &shot.Session); err != nil {
		return nil, err
	}
	if shot.Session.Services, err = servicesOf(&o.Settings); err != nil {
		return nil, err
	}
	shot.Session.Agentd, err = findAgentd(o.Agentd)
	return shot, err
}

// makeHome makes the home of runs, unless the run is refused because the workspace holds it.
func (o *runOptions) makeHome(ctx context.Context) (state.Home, error) {
	if err := workspace.Check(ctx, o.source(o.home)); err != nil {
		return state.Home{}, err
	}
	return state.MakeHome(o.Home, o.UserHome)
}

// source is where the tree of the run comes from.
func (o *runOptions) source(home state.Home) workspace.Options {
	return workspace.Options{Dir: o.Workspace, IncludeDirty: o.IncludeDirty, CacheDir: home.CacheDir(),
		Ignored: append([]string{}, o.IncludeIgnored...), IgnoredNamed: o.ignoredNamed,
		Borrowing: git.Borrowing{Allow: o.AllowAlternates, StateHome: home.Dir()}}
}

// needModel chooses the default model where none is set, if it can be asked.
func (o *configured) needModel(host *modelaccess.Host) error {
	if o.Model != "" {
		return nil
	}
	o.Model = settings.DefaultModel
	if _, err := host.Ready(o.Model); err != nil {
		return &runner.Error{Code: runner.CodeCredentials, Param: "--model",
			Message: "no model is chosen and there is no key for the default one, " + settings.DefaultModel,
			Hint: "set OPENAI_API_KEY or store a key with: holon credentials set openai; choose a model with: holon " +
				"config set model.default PROVIDER/NAME; or try --model scripted/demo"}
	}
	return nil
}
