package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/runner/agent/rules"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
)

// newAgentCommand makes `holon agent`.
func newAgentCommand(streams Streams) *cobra.Command {
	list, _ := remoteCommand(streams, "list", "List the agents of the daemon", 0, 0, runAgentList)
	create := newAgentCreateCommand(streams)
	status := agentCommand(streams, "status [AGENT]", "Say what an agent does and waits for", 0, 1, runStatus)
	start := agentCommand(streams, "start [AGENT]", "Let a stopped agent go on", 0, 1,
		func(ctx context.Context, r *remote) error {
			return steer(ctx, r, r.Start)
		})
	renew := agentCommand(streams, "renew [AGENT]", "Let the conversation of an agent begin anew", 0, 1,
		func(ctx context.Context, r *remote) error {
			return steer(ctx, r, r.Renew)
		})
	renew.Long = "Let the conversation of an agent begin anew with its next turn, which is shown the newest\nturns in " +
		"short. Its record, files, work, tasks and queue stay. A turn that runs is the last of\nthe old conversation."
	withTasks := false
	stop := agentCommand(streams, "stop [AGENT]", "Stop an agent until it is started", 0, 1,
		func(ctx context.Context, r *remote) error {
			return steer(ctx, r, func(ctx context.Context, agentID string) (wire.Controlled, error) {
				return r.Stop(ctx, agentID, withTasks)
			})
		})
	stop.Long = "Stop an agent until it is started. Its run is ended; what is queued stays queued, and\nnothing " +
		"more is taken in. Its tasks go on."
	stop.Flags().BoolVar(&withTasks, "with-tasks", false, "end its tasks too")
	image := agentCommand(streams, "image [AGENT [IMAGE]]", "Show or set the image of an agent's container", 0, 2,
		runAgentImage)
	image.Long = "Show the image of an agent's container, or set it from the next turn on. An IMAGE of \"\"\nis the " +
		"daemon's own again."
	return group("agent", "Make agents, and see and control them",
		"An AGENT that is left out is HOLON_AGENT_ID, else the daemon's default agent.",
		tableCommand(list, streams), create, newAgentRemoveCommand(streams), status, start, stop, renew,
		newAgentAbortCommand(streams),
		newAgentModelCommand(streams),
		newTriggerCommand(streams), image)
}

// agentCommand is remoteCommand for commands whose first argument is an agent.
func agentCommand(streams Streams, use, short string, min, max int,
	do func(context.Context, *remote) error) *cobra.Command {
	cmd, r := remoteCommand(streams, use, short, min, max, do)
	r.byArgument = true
	return cmd
}

func runAgentList(ctx context.Context, r *remote) error {
	agents, err := r.Agents(ctx)
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, agents)
	}
	t := newTable(r.streams, "AGENT", "STATUS", "POSTURE", "PENDING", "MODEL", "LAST BRIEF").cutting("MODEL", "POSTURE")
	for _, a := range agents {
		id := a.Identity.AgentID
		if a.Identity.IsDefaultAgent && r.streams.OutTTY {
			id += " (default)"
		}
		t.row(id, string(a.Status), string(a.SchedulingPosture.Posture), strconv.Itoa(a.Pending),
			a.Model.EffectiveModel, r.streams.moment(a.LastBriefAt))
	}
	return t.end()
}

func newAgentCreateCommand(streams Streams) *cobra.Command {
	template := ""
	cmd := agentCommand(streams, "create AGENT", "Make an agent with a home of its own", 1, 1,
		func(ctx context.Context, r *remote) error {
			made, err := r.Create(ctx, r.args[0], template)
			if err != nil {
				return err
			}
			if r.JSON {
				return printJSON(r.streams, made)
			}
			return facts(r.streams, [2]string{"agent", made.Identity.AgentID},
				[2]string{"home", made.Identity.AgentHome},
				[2]string{"template", made.Identity.Template}, [2]string{"model", made.Model.EffectiveModel})
		})
	cmd.Flags().StringVar(&template, "template", "",
		"`name` of a template, or its directory, from which the home is made")
	return cmd
}

// steer starts, stops or renews an agent.
func steer(ctx context.Context, r *remote, do func(context.Context, string) (wire.Controlled, error)) error {
	done, err := do(ctx, r.named())
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, done)
	}
	_, err = fmt.Fprintf(r.streams.Out, "%s\t%s\n", r.streams.oneLine(done.AgentID, 100),
		map[string]string{"start": "started", "stop": "stopped", "renew": "renewed"}[done.Action])
	return err
}

func newAgentAbortCommand(streams Streams) *cobra.Command {
	a := wire.Abort{}
	stop := false
	cmd := agentCommand(streams, "abort [AGENT]", "End what an agent does now", 0, 1,
		func(ctx context.Context, r *remote) error {
			if stop {
				a.Mode = "stop_after_abort"
			}
			done, err := r.Abort(ctx, r.named(), a)
			if err != nil {
				return err
			}
			if r.JSON {
				return printJSON(r.streams, done)
			}
			_, err = fmt.Fprintf(r.streams.Out, "%s\t%s\taborted\n", r.streams.oneLine(done.AgentID, 100),
				r.streams.oneLine(done.RunID, 100))
			return err
		})
	cmd.Flags().StringVar(&a.RunID, "run", "", "`id` of the run that is meant; another is left alone")
	cmd.Flags().BoolVar(&stop, "stop", false, "stop the agent as well")
	return cmd
}

func newAgentModelCommand(streams Streams) *cobra.Command {
	get := agentCommand(streams, "get [AGENT]", "Show which model an agent asks", 0, 1,
		func(ctx context.Context, r *remote) error {
			s, err := r.Status(ctx, r.named())
			if err != nil {
				return err
			}
			return showModel(r, s.Model)
		})
	effort, force := "", false
	set := agentCommand(streams, "set AGENT PROVIDER/NAME",
		"Set which model an agent asks, from its next turn on", 2, 2, func(ctx context.Context, r *remote) error {
			done, err := r.SetModel(ctx, r.args[0], wire.Model{Model: scenarioFromHere(r.args[1]),
				ReasoningEffort: effort, Force: force})
			if err != nil {
				return r.knownHere(err, r.args[1])
			}
			return showModel(r, done.Model)
		})
	set.Flags().StringVar(&effort, "reasoning-effort", "",
		"`effort`: how much it is to think: "+strings.Join(rules.Efforts, ", "))
	set.Flags().BoolVar(&force, "force", false, "also when there is no key for its provider yet")
	clearing := agentCommand(streams, "clear [AGENT]", "Let an agent ask the daemon's model again", 0, 1,
		func(ctx context.Context, r *remote) error {
			done, err := r.ClearModel(ctx, r.named())
			if err != nil {
				return err
			}
			return showModel(r, done.Model)
		})
	return group("model", "Show or set which model an agent asks", "", get, set, clearing)
}

// knownHere says of a model that the daemon refuses, and that can be asked here, that the daemon has older settings.
func (r *remote) knownHere(err error, ref string) error {
	e, ok := errors.AsType[*state.Error](err)
	if !ok || e.Param != "model" {
		return err
	}
	e.Param = "PROVIDER/NAME"
	if !strings.HasPrefix(ref, "scripted/") && checkModel(r.access(r.home), ref) == nil {
		e.Hint = "it can be asked here, but the daemon has the variables of its start: holon daemon restart"
	}
	return e
}

func showModel(r *remote, m view.ModelState) error {
	if r.JSON {
		return printJSON(r.streams, m)
	}
	pairs := [][2]string{{"model", m.EffectiveModel}, {"source", m.Source},
		{"reasoning effort", m.OverrideReasoningEffort}}
	for _, f := range m.EffectiveFallbackModels {
		pairs = append(pairs, [2]string{"fallback", f})
	}
	return facts(r.streams, append(pairs, [2]string{"last answered by", m.ActiveModel})...)
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
	if r.JSON {
		return printJSON(r.streams, struct {
			AgentID string `json:"agent_id"`
			Image   string `json:"image"`
		}{agent, image})
	}
	return facts(r.streams, [2]string{"agent", agent}, [2]string{"image", cmp.Or(image, "that of the daemon")})
}

// newTriggerCommand makes `holon agent trigger`.
func newTriggerCommand(streams Streams) *cobra.Command {
	show := agentCommand(streams, "show [AGENT]",
		"Show an agent's external trigger with its URL", 0, 1,
		func(ctx context.Context, r *remote) error {
			return trigger(ctx, r, r.Trigger)
		})
	show.Long = "Show an agent's external trigger, a URL that wakes it. It is made again if it was revoked.\n" +
		"The URL is a secret."
	rotate := agentCommand(streams, "rotate [AGENT]", "Give the trigger another URL; the old one ends", 0, 1,
		func(ctx context.Context, r *remote) error {
			return trigger(ctx, r, r.RotateTrigger)
		})
	revoke := agentCommand(streams, "revoke [AGENT]", "End the trigger", 0, 1,
		func(ctx context.Context, r *remote) error {
			return trigger(ctx, r, r.RevokeTrigger)
		})
	return group("trigger", "The URL by which others wake an agent", "", show, rotate, revoke)
}

func trigger(ctx context.Context, r *remote, do func(context.Context, string) (wire.Trigger, error)) error {
	t, err := do(ctx, r.named())
	if err != nil {
		return err
	}
	if r.JSON {
		return printJSON(r.streams, t)
	}
	return facts(r.streams, [2]string{"agent", t.AgentID}, [2]string{"trigger", t.Trigger.ID},
		[2]string{"status", t.Trigger.Status}, [2]string{"used", strconv.FormatInt(t.Trigger.DeliveryCount, 10)},
		[2]string{"url", t.TriggerURL}, [2]string{"hint", t.Hint})
}
