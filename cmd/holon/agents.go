package main

import (
	"cmp"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/runner/agent/rules"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
)

func newAgentCommand(streams Streams) *cobra.Command {
	start := newSteerCommand(streams, "start [AGENT]", "Let a stopped agent go on", &wire.Control{Action: "start"})
	renew := newSteerCommand(streams, "renew [AGENT]", "Let the conversation of an agent begin anew",
		&wire.Control{Action: "renew"})
	renew.Long = "Let the conversation of an agent begin anew with its next turn, which is shown the newest\nturns in " +
		"short. Its record, files, work, tasks and queue stay. A turn that runs is the last of\nthe old conversation."
	stopping := &wire.Control{Action: "stop"}
	stop := newSteerCommand(streams, "stop [AGENT]", "Stop an agent until it is started", stopping)
	stop.Long = "Stop an agent until it is started. Its run is ended; what is queued stays queued, and\nnothing " +
		"more is taken in. Its tasks go on."
	stop.Flags().BoolVar(&stopping.WithTasks, "with-tasks", false, "end its tasks too")
	image := agentCommand(streams, "image [AGENT [IMAGE]]", "Show or set the image of an agent's container",
		runAgentImage)
	image.Long = "Show the image of an agent's container, or set it from the next turn on. An IMAGE of \"\"\nis the " +
		"daemon's own again."
	return group("agent", "Make agents, and see and control them",
		"An AGENT that is left out is HOLON_AGENT_ID, else the daemon's default agent.",
		tableCommand(agentCommand(streams, "list", "List the agents of the daemon", runAgentList), streams),
		newAgentCreateCommand(streams), newAgentRemoveCommand(streams),
		agentCommand(streams, "status [AGENT]", "Show what an agent does and waits for", runStatus),
		start, stop, renew, newAgentAbortCommand(streams), newAgentModelCommand(streams), newTriggerCommand(streams), image,
		newAgentBudgetCommand(streams))
}

func runAgentList(ctx context.Context, r *remote) error {
	agents, err := r.Agents(ctx)
	return showList(&r.base, agents, err,
		[]string{"AGENT", "STATUS", "POSTURE*", "PENDING", "MODEL*", "LAST BRIEF", "SANDBOX*"},
		func(a view.AgentListEntry) []string {
			id := a.Identity.AgentID
			if a.Identity.IsDefaultAgent && r.streams.OutTTY {
				id += " (default)"
			}
			return []string{id, string(a.Status), string(a.SchedulingPosture.Posture), strconv.Itoa(a.Pending),
				a.Model.EffectiveModel, r.streams.when(a.LastBriefAt), a.Execution.Unenforced()}
		})
}

func newAgentCreateCommand(streams Streams) *cobra.Command {
	template := ""
	cmd := agentCommand(streams, "create AGENT", "Make an agent with a home of its own",
		func(ctx context.Context, r *remote) error {
			made, err := r.Create(ctx, r.args[0], template)
			return r.showFacts(made, err, "agent", made.Identity.AgentID, "home", made.Identity.AgentHome,
				"template", made.Identity.Template, "model", made.Model.EffectiveModel)
		})
	cmd.Flags().StringVar(&template, "template", "",
		"`name` of a template, or its directory, from which the home is made")
	return cmd
}

// newSteerCommand makes a command that starts, stops or renews an agent.
func newSteerCommand(streams Streams, use, short string, what *wire.Control) *cobra.Command {
	return agentCommand(streams, use, short, func(ctx context.Context, r *remote) error {
		done, err := r.Control(ctx, r.named(), *what)
		return r.showRow(done, err, done.AgentID,
			map[string]string{"start": "started", "stop": "stopped", "renew": "renewed"}[done.Action])
	})
}

func newAgentAbortCommand(streams Streams) *cobra.Command {
	a := wire.Abort{}
	stop := false
	cmd := agentCommand(streams, "abort [AGENT]", "End what an agent does now",
		func(ctx context.Context, r *remote) error {
			if stop {
				a.Mode = "stop_after_abort"
			}
			done, err := r.Abort(ctx, r.named(), a)
			return r.showRow(done, err, done.AgentID, done.RunID, "aborted")
		})
	cmd.Flags().StringVar(&a.RunID, "run", "", "`id` of the run that is meant; another is left alone")
	cmd.Flags().BoolVar(&stop, "stop", false, "stop the agent as well")
	return cmd
}

func newAgentModelCommand(streams Streams) *cobra.Command {
	get := agentCommand(streams, "get [AGENT]", "Show which model an agent asks",
		func(ctx context.Context, r *remote) error {
			s, err := r.Status(ctx, r.named())
			return showModel(r, s.Model, err)
		})
	effort, force := "", false
	set := agentCommand(streams, "set AGENT PROVIDER/NAME",
		"Set which model an agent asks, from its next turn on", func(ctx context.Context, r *remote) error {
			done, err := r.SetModel(ctx, r.args[0], wire.Model{Model: scenarioFromHere(r.args[1]),
				ReasoningEffort: effort, Force: force})
			return showModel(r, done.Model, r.askableHere(err, r.args[1]))
		})
	set.Flags().StringVar(&effort, "reasoning-effort", "",
		"`effort`: how much it is to think: "+strings.Join(rules.Efforts, ", "))
	set.Flags().BoolVar(&force, "force", false, "also when there is no key for its provider yet")
	clearing := agentCommand(streams, "clear [AGENT]", "Let an agent ask the daemon's model again",
		func(ctx context.Context, r *remote) error {
			done, err := r.ClearModel(ctx, r.named())
			return showModel(r, done.Model, err)
		})
	return group("model", "Show or set which model an agent asks", "", get, set, clearing)
}

// askableHere adds to the error of a model that the daemon refuses, and that can be asked here, that the daemon has
// older settings.
func (r *remote) askableHere(err error, ref string) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok || e.Param != "model" {
		return err
	}
	e.Param = "PROVIDER/NAME"
	if !strings.HasPrefix(ref, "scripted/") && checkModel(r.models(r.home), ref) == nil {
		e.Hint = "it can be asked here, but the daemon has the variables of its start: holon daemon restart"
	}
	return e
}

func showModel(r *remote, m view.ModelState, err error) error {
	pairs := []string{"model", m.EffectiveModel, "source", m.Source, "reasoning effort", m.OverrideReasoningEffort}
	for _, f := range m.EffectiveFallbackModels {
		pairs = append(pairs, "fallback", f)
	}
	return r.showFacts(m, err, append(pairs, "last answered by", m.ActiveModel)...)
}

func runAgentImage(ctx context.Context, r *remote) error {
	var agent, image string
	if len(r.args) < 2 {
		s, err := r.Status(ctx, r.named())
		if err != nil {
			return err
		}
		agent, image = s.Identity.AgentID, s.Identity.Image
	} else {
		set, err := r.SetImage(ctx, r.args[0], r.args[1])
		if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "image" {
			e.Param = "IMAGE" // --image is the daemon's
		}
		if err != nil {
			return err
		}
		agent, image = r.args[0], set.Image
	}
	return r.showFacts(struct {
		AgentID string `json:"agent_id"`
		Image   string `json:"image"`
	}{agent, image}, nil, "agent", agent, "image", cmp.Or(image, "that of the daemon"))
}
