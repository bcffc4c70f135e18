package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"holon/responses"
	"holon/runner"
	"holon/runner/agent/memory"
	"holon/runner/agent/prompt"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

// maxRecent is how many earlier turns a conversation that begins anew is shown.
const maxRecent = 20

// ensureDefault makes the default agent where there is none, and what is missing
// of its home. A home that was made before and cannot be used stops its agent and
// no other one.
func (r *Runtime) ensureDefault(ctx context.Context) error {
	if mine, err := r.takeDefault(ctx); err != nil || !mine {
		return err
	}
	if err := r.cfg.Homes.EnsureDefault(ctx, r.cfg.Default); err != nil {
		_, missing := ledger.Read(ctx, r.store, func(v ledger.View) (ledger.AgentState, error) {
			return v.AgentState(r.cfg.Default)
		})
		if missing != nil {
			return err
		}
		r.damaged(r.cfg.Default, err)
		return nil
	}
	if r.cfg.Files != nil {
		if err := r.cfg.Files.Save(ctx, r.cfg.Default); err != nil {
			return err
		}
	}
	_, err := r.scheduler.Create(ctx, scheduler.NewAgent{ID: r.cfg.Default, Default: true, Template: r.cfg.Template})
	if state.IsCode(err, ledger.CodeExists) {
		return nil
	}
	return err
}

// CreateAgent makes a public agent with its home. An agent whose home was made
// and that was not recorded, because this process was killed in between, is made
// by the next call.
func (r *Runtime) CreateAgent(ctx context.Context, id, template string) (ledger.Agent, error) {
	if err := state.CheckNewAgentID(id); err != nil {
		return ledger.Agent{}, err
	}
	if template == "" {
		template = r.cfg.Template
	}
	if r.cfg.Files != nil {
		if err := r.cfg.Files.Own(ctx, id); err != nil {
			return ledger.Agent{}, err
		}
	}
	if err := r.cfg.Homes.Create(ctx, id, template); err != nil && !state.IsCode(err, ledger.CodeExists) {
		return ledger.Agent{}, err
	}
	if r.cfg.Files != nil {
		if err := r.cfg.Files.Save(ctx, id); err != nil {
			return ledger.Agent{}, err
		}
	}
	return r.scheduler.Create(ctx, scheduler.NewAgent{ID: id, Template: template})
}

// promptInput gathers the input of the prompt of a claim from one snapshot.
func (r *Runtime) promptInput(ctx context.Context, c scheduler.Claim) (prompt.Input, error) {
	in := prompt.Input{Claim: c, Now: r.cfg.Now(), Budget: r.cfg.ConversationBudget, Changed: r.changed(c.Message)}
	err := r.store.View(ctx, func(v ledger.View) (err error) {
		if in.Work, err = r.work(v, c); err != nil {
			return err
		}
		if in.Memory, err = r.memory(v, c); err != nil {
			return err
		}
		if in.Workspaces, err = r.workspaces(v, c.Agent.ID); err != nil {
			return err
		}
		if in.Queued, err = v.CountQueued(c.Agent.ID); err != nil || c.Attempt.Chain != "" {
			return err
		}
		in.Recent, err = recentTurns(v, c)
		return err
	})
	in.Memory.Curated = r.curated(c.Agent.ID)
	return in, err
}

// recentTurns is what an agent did last in the workspace of a claim, or at home. A message that retention removed is
// shown as gone.
func recentTurns(v ledger.View, c scheduler.Claim) (list []prompt.EarlierTurn, err error) {
	turns, err := v.Turns(c.Agent.ID, maxRecent)
	for _, t := range memory.Earlier(turns, c.Attempt.WorkspaceID) {
		m, err := v.Message(t.MessageID)
		if err != nil && !state.IsCode(err, ledger.CodeNotFound) {
			return nil, err
		}
		text := m.Body.Text
		if m.Body.Type == "json" {
			text = string(m.Body.Value)
		}
		list = append(list, prompt.EarlierTurn{At: t.StartedAt, Kind: m.Kind, Message: text, Answer: t.Last, Ended: t.Reason})
	}
	return list, err
}

// previewTime is how long the container of an agent may take to start and to say what it would send.
const previewTime = 20 * time.Second

var errSlow = errors.New("the container of the agent did not answer in time")

// Prompt returns a prompt.Report of a text of the operator, as JSON. It asks no model and records nothing. An agent
// without a container gets one, as for a turn.
func (r *Runtime) Prompt(ctx context.Context, agentID, text string) (json.RawMessage, error) {
	c, err := r.imagined(ctx, agentID, text)
	if err != nil {
		return nil, err
	}
	turn, sent, err := r.plan(ctx, c)
	if err != nil {
		return nil, err
	}
	report := prompt.Report{Prompt: sent}
	report.Binding, err = ledger.Read(ctx, r.store, func(v ledger.View) (view.Binding, error) {
		return view.New(v, r.cfg.Facts).Binding(agentID)
	})
	if err != nil {
		return nil, err
	}
	asking, cancel := context.WithTimeoutCause(ctx, previewTime, errSlow)
	defer cancel()
	preview, err := r.cfg.Turns.Preview(asking, turn)
	if report.Request = &preview; err != nil {
		if errors.Is(context.Cause(asking), errSlow) {
			err = &state.Error{Code: runner.CodeNotReady, Message: errSlow.Error(), Hint: "try again when it is up"}
		}
		failure := runner.Describe(err)
		report.Request, report.Unknown = nil, &failure
	}
	data, err := json.Marshal(report)
	if err != nil {
		return nil, fmt.Errorf("encode the prompt: %w", err)
	}
	return r.cfg.hide(data), nil
}

// imagined is the claim of a text that the operator might send. Nothing records it.
func (r *Runtime) imagined(ctx context.Context, agentID, text string) (scheduler.Claim, error) {
	c := scheduler.Claim{Message: ledger.Message{ID: responses.PrefixMessage + "preview", AgentID: agentID,
		CreatedAt: r.cfg.Now(), Kind: ledger.KindOperatorPrompt,
		Origin: ledger.Origin{Kind: ledger.OriginOperator}, Authority: ledger.OperatorInstruction,
		Body: ledger.Body{Type: "text", Text: text}}}
	err := r.store.View(ctx, func(v ledger.View) (err error) {
		if c.Agent, err = v.Agent(agentID); err != nil {
			return err
		}
		if c.Agent.ArchivedAt != nil {
			return scheduler.Archived(agentID)
		}
		stored, err := v.AgentState(agentID)
		c.Attempt.Chain, c.Attempt.Model, c.ClientCalls = stored.Chain, c.Agent.Model, stored.ClientCalls
		c.Attempt.WorkspaceID = stored.WorkspaceID()
		c.Compactions = stored.Totals.Compactions
		return err
	})
	c.Continuation = ledger.Continuation{TriggerKind: ledger.TriggerOperatorInput, Class: ledger.ResumeOverride,
		ModelVisible: true}
	return c, err
}
