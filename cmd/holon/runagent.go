package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/responses/turns"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// agentRunFlags are the flags of `holon run` that go with --agent: an agent has
// the rest for itself.
var agentRunFlags = []string{"agent", "workspace", "create-agent", "template", "json", "output-format", "quiet"}

// runOnAgent does what `holon run --agent` was asked to do.
func runOnAgent(cmd *cobra.Command, args []string, o *runOptions) (err error) {
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		if err == nil && !slices.Contains(agentRunFlags, flag.Name) {
			err = usage("--"+flag.Name, "an agent that lives has its own", "leave it out, or --agent")
		}
	})
	if err == nil && o.agent == "" {
		err = usage("--agent", "is empty", "name an agent, or leave it out for a run of its own")
	}
	if err == nil {
		err = checkFormat(&o.Format, &o.JSON)
	}
	if err == nil {
		err = o.begin(args)
	}
	if err != nil {
		return err
	}
	text, err := readPrompt(cmd.Context(), args, o.streams, &o.host)
	if err != nil {
		return err
	}
	r := &remote{base: o.base, Agent: o.agent, Format: o.Format}
	return r.ask(cmd.Context(), func(ctx context.Context, r *remote) error {
		if err := r.place(ctx, o); err != nil {
			return err
		}
		sent, err := r.Prompt(ctx, r.Agent, wire.Prompt{Text: text, Surface: string(ledger.SurfaceRunOnce)}, "")
		if err != nil {
			return err
		}
		end, err := r.watch(ctx, sent, o.Quiet || r.JSON)
		if err != nil {
			return err
		}
		result, err := r.result(ctx, end)
		if err != nil {
			return err
		}
		return r.showEnd(end, result, result.FinalText, o.Quiet)
	})
}

// place sees to it that there is an agent, and that it works where it is to. No agent is made for a wrong directory.
func (r *remote) place(ctx context.Context, o *runOptions) (err error) {
	dir := o.Workspace
	if dir != "" {
		if dir, err = absolute("--workspace", dir); err != nil {
			return err
		}
	}
	if err = r.ensure(ctx, o.createAgent, wire.Create{Template: o.template, Workspace: dir}); err == nil {
		err = r.bind(ctx, dir)
	}
	if e, ok := errors.AsType[*state.Error](err); ok && (e.Param == "path" || e.Param == "workspace") {
		named := *e
		named.Param = "--workspace"
		return &named
	}
	return err
}

// bind has the agent work in a directory, once no turn of it runs; without one it stays where it works.
func (r *remote) bind(ctx context.Context, dir string) error {
	if dir == "" {
		return nil
	}
	for {
		_, err := r.UseWorkspace(ctx, r.Agent, view.WorkspaceUse{Path: dir, Wait: true})
		if !state.IsCode(err, scheduler.CodeAgentBusy) {
			return err
		}
	}
}

// ensure makes the agent when that was asked for and there is none.
func (r *remote) ensure(ctx context.Context, create bool, made wire.Create) error {
	if !create {
		_, err := r.Status(ctx, r.Agent)
		if state.IsCode(err, ledger.CodeNotFound) {
			return &state.Error{Code: ledger.CodeNotFound, Param: "--agent",
				Message: fmt.Sprintf("there is no agent %.80q", r.Agent),
				Hint:    "make it with --create-agent, or: holon agent create " + r.Agent}
		}
		return err
	}
	_, err := r.CreateAs(ctx, r.Agent, made)
	if state.IsCode(err, ledger.CodeExists) {
		return nil
	}
	return err
}

// runResult is what `holon run --agent --json` prints.
type runResult struct {
	AgentID        string                  `json:"agent_id"`
	MessageID      string                  `json:"message_id"`
	TurnID         string                  `json:"turn_id,omitempty"`
	FinalStatus    string                  `json:"final_status"` // completed, waiting, failed, max_turns_exceeded
	WaitingReason  string                  `json:"waiting_reason,omitempty"`
	FinalText      string                  `json:"final_text"`
	RawFinalText   string                  `json:"raw_final_text"` // the last text of the agent
	SleepReason    string                  `json:"sleep_reason,omitempty"`
	Failure        *ledger.Failure         `json:"failure,omitempty"`
	Artifact       *turns.FailureArtifact  `json:"failure_artifact,omitempty"`
	Tasks          []view.TaskRecord       `json:"tasks"`         // that the turn started
	ChangedFiles   []string                `json:"changed_files"` // in its active workspace, not applied yet
	MessageCount   int64                   `json:"message_count"` // of the agent's life
	TokenUsage     *turns.Usage            `json:"token_usage,omitempty"`
	InputTokens    int64                   `json:"input_tokens"`
	OutputTokens   int64                   `json:"output_tokens"`
	ModelRounds    int                     `json:"model_rounds"`
	ToolCalls      int                     `json:"tool_calls"`
	ShellCommands  int                     `json:"shell_commands"` // calls of ExecCommand and ExecCommandBatch
	ProviderRounds *turns.ProviderTimeline `json:"provider_attempt_timeline,omitempty"`
	Outcome        state.Outcome           `json:"outcome"` // as in the manifest of a run
	ExitCode       int                     `json:"exit_code"`
}

// withoutTurn is why no turn was run for a message: the newest failure of the agent, unless that is about another
// message.
func withoutTurn(end view.MessageState, newest *ledger.Failure) *ledger.Failure {
	_, err := outcomeOf(end)
	e, ok := errors.AsType[*state.Error](err)
	if !ok || end.Entry.Status == ledger.Quarantined ||
		end.Entry.Blocked() && end.Entry.Code != string(scheduler.CodeAgentStopped) {
		return newest
	}
	return &ledger.Failure{AgentID: end.Message.AgentID, OccurredAt: time.Now().UTC(), Phase: "runtime_turn",
		Code: cmp.Or(end.Entry.Code, string(e.Code)), Summary: e.Message, Hint: e.Hint}
}

// changedFiles are those that an agent changed in the workspace in which it works.
func (r *remote) changedFiles(ctx context.Context, agent view.AgentSummary) ([]string, error) {
	names := []string{}
	if agent.Agent.ActiveWorkspaceID == ledger.HomeWorkspace {
		return names, nil
	}
	diffs, err := r.DiffWorkspace(ctx, r.Agent, wire.DiffWorkspace{WorkspaceID: agent.Agent.ActiveWorkspaceID})
	for _, d := range diffs {
		for _, f := range d.Changes.Files {
			names = append(names, f.Path)
		}
	}
	return names, err
}

func (r *remote) result(ctx context.Context, end view.MessageState) (runResult, error) {
	out := runResult{
		AgentID:       r.Agent,
		MessageID:     end.Message.ID,
		FinalStatus:   finalStatus(end),
		Tasks:         []view.TaskRecord{},
		ChangedFiles:  []string{},
		ShellCommands: r.view.shells,
	}
	out.Outcome, _ = outcomeOf(end)
	out.ExitCode = out.Outcome.ExitCode()
	agent, err := r.Status(ctx, r.Agent)
	if err != nil {
		return out, err
	}
	out.MessageCount = agent.Agent.TotalMessageCount
	t := end.Turn
	if t == nil {
		out.Failure = withoutTurn(end, agent.Agent.LastRuntimeFailure)
		return out, nil
	}
	out.TurnID, out.FinalText, out.RawFinalText = t.ID, t.Last, t.Last
	out.Failure, out.WaitingReason = t.Failure, string(t.Closure.WaitingReason)
	out.TokenUsage, out.ModelRounds, out.ToolCalls, out.ProviderRounds = t.Usage, t.ModelRounds, t.ToolCalls, t.Provider
	if t.Failure != nil {
		out.Artifact = t.Failure.Artifact
	}
	if t.Usage != nil {
		out.InputTokens, out.OutputTokens = int64(t.Usage.InputTokens), int64(t.Usage.OutputTokens)
	}
	for _, w := range agent.ActiveWaits {
		if w.Registered == t.AttemptID {
			out.SleepReason = w.WaitingFor
		}
	}
	started, err := r.Client.Tasks(ctx, r.Agent, 0)
	if err != nil {
		return out, err
	}
	for _, task := range started {
		if task.TurnID == t.ID {
			out.Tasks = append(out.Tasks, task)
		}
	}
	if out.ChangedFiles, err = r.changedFiles(ctx, agent); err != nil {
		return out, err
	}
	items, err := r.WorkItems(ctx, r.Agent, 0)
	for _, w := range items { // the newest report goes before the last text
		if w.CompletionTurnID == t.ID {
			out.FinalText = w.CompletionReport
		}
	}
	return out, err
}
