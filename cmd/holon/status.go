package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state/ledger"
)

func newStatusCommand(streams Streams) *cobra.Command {
	cmd := remoteCommand(streams, "status", "Show what an agent does and waits for", runStatus)
	cmd.Long = "Show what an agent does, what it waits for, and what an operator may do with it now.\nIt reads and " +
		"changes nothing."
	return cmd
}

func runStatus(ctx context.Context, r *remote) error {
	s, err := r.Status(ctx, r.named())
	return r.show(s, err, func() error {
		objective := ""
		if id := s.Agent.CurrentWorkItemID; id != "" {
			item, err := r.WorkItem(ctx, s.Identity.AgentID, id)
			if err != nil {
				return err
			}
			objective = item.Objective
		}
		return summary(r.streams, s, objective)
	})
}

// closure is what the end of the newest turn means, and the facts that say so.
func closure(c *ledger.Closure) []string {
	if c == nil {
		return nil
	}
	return []string{"closure", string(c.Outcome), "because of", string(c.WaitingReason),
		"evidence", strings.Join(c.Evidence, ", ")}
}

func summary(streams Streams, s view.AgentSummary, objective string) error {
	model := s.Model.EffectiveModel
	if s.Model.Source == view.ModelOverride {
		model += " (set for this agent)"
	}
	pairs := []string{
		"agent", s.Identity.AgentID, "status", string(s.Agent.Status),
		"posture", string(s.SchedulingPosture.Posture) + ": " + s.SchedulingPosture.Reason,
		"model", model, "image", s.Identity.Image, "home", s.Identity.AgentHome,
		"current run", s.Agent.CurrentRunID, "pending", strconv.Itoa(s.Agent.Pending),
		"next try", streams.when(s.Agent.RetryAt),
		"sleeps until", streams.when(s.Agent.SleepingUntil), "turns", strconv.FormatInt(s.Agent.TurnIndex, 10),
		"last wake", s.Agent.LastWakeReason, "last brief", streams.when(s.Agent.LastBriefAt),
		"tokens", fmt.Sprintf("%[1]s%[2]d in, %[1]s%[3]d out", s.TokenUsage.Total.Mark(),
			s.TokenUsage.Total.InputTokens, s.TokenUsage.Total.OutputTokens),
	}
	if b := s.Budget; b != nil {
		pairs = append(pairs, append([]string{"with children"}, budgetOfTree(*b)[1:]...)...)
		pairs = append(pairs, "spent", b.Spent)
	}
	pairs = append(pairs, closure(s.Closure)...)
	var used []string
	for _, skill := range s.Skills.Active {
		used = append(used, skill.SkillID)
	}
	pairs = append(pairs, "skills in use", streams.oneLine(strings.Join(used, ", "), 1000),
		"sandbox", s.Execution.Policy.Unenforced())
	if s.Agent.ActiveWorkspaceID != ledger.HomeWorkspace {
		pairs = append(pairs, "workspace", s.Execution.WorkspaceID+", "+streams.oneLine(s.Execution.WorkspaceAnchor, 1000),
			"works in", streams.oneLine(s.Agent.Cwd, 1000))
	}
	if s.Agent.OpenWorkItems > 0 {
		pairs = append(pairs, "work items", strconv.Itoa(s.Agent.OpenWorkItems)+" open",
			"works on", s.Agent.CurrentWorkItemID, "objective", streams.oneLine(objective, 1000))
	}
	for _, c := range s.ActiveChildren {
		why := cmp.Or(c.BlockedReason, c.WaitingReason)
		pairs = append(pairs, "child", strings.TrimSpace(c.Identity.AgentID+", "+c.Phase+" "+why)+": "+
			streams.oneLine(c.Label, 160))
	}
	if s.ActiveTaskCount > 0 {
		pairs = append(pairs, "tasks", strconv.Itoa(s.ActiveTaskCount))
	}
	for _, w := range s.ActiveWaits {
		pairs = append(pairs, "waits for", w.WaitingFor)
	}
	for _, t := range s.ActiveTriggers {
		used := "never used"
		if t.DeliveryCount > 0 {
			used = "used " + count(int(t.DeliveryCount), "time")
		}
		pairs = append(pairs, "trigger", t.ID+", "+used)
	}
	if s.ActiveTimerCount > 0 {
		pairs = append(pairs, "timers", strconv.Itoa(s.ActiveTimerCount))
	}
	if f := s.Agent.LastRuntimeFailure; f != nil {
		pairs = append(pairs, "last failure", streams.failure(f))
	}
	for _, n := range s.Notifications {
		text := streams.when(turns.At(n.CreatedAt)) + ": " + n.Summary
		if of := delivered(slices.DeleteFunc(slices.Clone(s.Deliveries), func(d ledger.Delivery) bool {
			return d.NotificationID != n.ID
		})); of != "" {
			text += " (" + of + ")"
		}
		pairs = append(pairs, "notice", text)
	}
	return facts(streams, append(pairs, "hint", s.Lifecycle.OperatorHint,
		"resume with", s.Lifecycle.ResumeCLIHint)...)
}
