package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner/agent/view"
	"holon/state"
	"holon/state/ledger"
)

func newDebugCommand(streams Streams) *cobra.Command {
	prompt := remoteCommand(streams, "prompt TEXT",
		"Print the whole prompt in which a text would be sent", runDebugPrompt)
	prompt.Long = `Print what the model would be asked if an agent got a text now: model and cache key,
instructions with those of AGENTS.md, skills, the conversation, and the names of the
tools. --json has the schemas of tools too, and the blocks that holon itself makes.
The agent's container is asked, and started if there is none. Nothing is sent to a
model and nothing is recorded. A conversation that is too long for the model is shown
as it is before a turn makes it shorter.`
	prompt.Args = cobra.ArbitraryArgs // which readPrompt checks
	limit := 10
	latency := remoteCommand(streams, "latency", "Say where the time of an agent's newest turns went",
		func(ctx context.Context, r *remote) error { return runLatency(ctx, r, limit) })
	latency.Flags().IntVar(&limit, "limit", limit, "`number` of turns")
	return group("debug", "Look into an agent", "", prompt, tableCommand(latency, streams))
}

func runLatency(ctx context.Context, r *remote, limit int) error {
	report, err := r.Latency(ctx, r.Agent, limit)
	return r.show(report, err, func() error {
		return printTable(r.streams, report.Turns,
			[]string{"TURN*", "ENDED", "QUEUED", "BEGIN", "TOOK", "MODELS", "TOOLS", "ROUNDS", "CALLS"},
			r.latencyRow)
	})
}

func (r *remote) latencyRow(turn view.TurnLatency) []string {
	begin, ended := "", string(turn.Kind)
	if turn.Kind == ledger.TurnAborted && turn.FailureCode != ledger.FailureAborted {
		ended = "failed"
	}
	if turn.BeginMS != nil {
		begin = r.streams.millis(*turn.BeginMS)
	}
	took := r.streams.millis
	return []string{turn.TurnID, ended, took(turn.QueueWaitMS), begin, took(turn.TurnMS),
		took(turn.ProviderMS), took(turn.ToolMS), strconv.Itoa(turn.ModelRounds), strconv.Itoa(turn.ToolCalls)}
}

// millis is a time in milliseconds: a number in a pipe, with its unit for a person.
func (s Streams) millis(ms int64) string {
	switch {
	case !s.OutTTY:
		return strconv.FormatInt(ms, 10)
	case ms < 10_000:
		return strconv.FormatInt(ms, 10) + "ms"
	}
	return elapsed(ms)
}

// promptReport is what of the answer of debug-prompt is shown as text.
type promptReport struct {
	SystemPrompt  string `json:"system_prompt"`
	ContextBlocks []struct {
		Text string `json:"text"`
	} `json:"context_blocks"`
	view.Binding
	Request *turns.Preview `json:"request"`
	Unknown *state.Failure `json:"unknown"`
}

func runDebugPrompt(ctx context.Context, r *remote) error {
	text, err := readPrompt(ctx, r.args, r.streams, &r.host)
	if err != nil {
		return err
	}
	data, err := r.DebugPrompt(ctx, r.Agent, text)
	if err != nil {
		return err
	}
	if r.JSON {
		return printRaw(r.streams, data)
	}
	var p promptReport
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("decode the answer of the daemon: %w", err)
	}
	if err := p.showBinding(r.streams); err != nil {
		return err
	}
	if p.Request == nil {
		return p.showOwn(r.streams)
	}
	return showPreview(r.streams, p.Request)
}

// showBinding prints where the commands of the agent run, and which instructions it is given.
func (p promptReport) showBinding(streams Streams) error {
	e := p.Execution
	err := facts(streams, "agent home", p.AgentHome, "workspace", e.WorkspaceID,
		"anchor", streams.oneLine(e.WorkspaceAnchor, 1000), "execution root", streams.oneLine(e.ExecutionRoot, 1000),
		"cwd", streams.oneLine(e.Cwd, 1000), "policy", e.Policy.Backend+", processes "+
			strings.ReplaceAll(e.Policy.ResourceAuthority["process_execution"], "_", " "))
	for _, source := range p.LoadedAgentsMD.Sources {
		err = errors.Join(err, printRow(streams, "instructions", source.Scope, source.Kind, source.Path))
	}
	return err
}

// showOwn prints what holon itself sends, when what the container adds cannot be found out.
func (p promptReport) showOwn(streams Streams) error {
	why := "the daemon gives no reason"
	if f := p.Unknown; f != nil {
		why = visible.WithRemedy(f.Message, f.Hint)
	}
	err := facts(streams, "not known", "AGENTS.md, skills, tools, conversation and cache key: "+why)
	var texts []string
	for _, b := range p.ContextBlocks {
		texts = append(texts, b.Text)
	}
	return errors.Join(err, section(streams, "Instructions of holon", p.SystemPrompt),
		section(streams, "Context", strings.Join(texts, "\n\n")))
}

func showPreview(streams Streams, p *turns.Preview) error {
	effort, limit := "", ""
	if p.Reasoning != nil && p.Reasoning.Effort != nil {
		effort = *p.Reasoning.Effort
	}
	if p.MaxOutputTokens != nil {
		limit = strconv.Itoa(*p.MaxOutputTokens) + " tokens"
	}
	size := "about " + strconv.Itoa(p.InputTokens)
	if p.ContextWindow > 0 {
		size += " of " + strconv.Itoa(p.ContextWindow)
	}
	err := facts(streams, "model", p.Model, "fallbacks", strings.Join(p.ModelFallbacks, ", "),
		"cache key", p.PromptCacheKey, "reasoning", effort, "max output", limit,
		"tokens", size, "session", p.SessionID, "continues", p.PreviousResponseID,
		"works in", p.WorkDir, "isolation", p.Isolation,
		"skills", strings.Join(p.Skills, ", "))
	for _, s := range p.Sources {
		err = errors.Join(err, printRow(streams, "source", s.Name, cmp.Or(s.Path, s.Kind), bytesText(s.Bytes)))
	}
	for _, n := range p.Notes {
		err = errors.Join(err, printRow(streams, "note", n))
	}
	err = errors.Join(err, section(streams, "Instructions", p.Instructions))
	for i, item := range p.Input {
		kind, text := itemText(item)
		err = errors.Join(err, section(streams, fmt.Sprintf("Input %d of %d, %s", i+1, len(p.Input), kind), text))
	}
	return errors.Join(err, showTools(streams, p.Tools))
}

// section prints a text under a heading with its size.
func section(streams Streams, heading, text string) error {
	_, err := fmt.Fprintf(streams.Out, "\n=== %s (%s) ===\n%s\n", streams.shown(heading), bytesText(len(text)),
		streams.shown(text))
	return err
}

func bytesText(n int) string { return strconv.Itoa(n) + " bytes" }

func showTools(streams Streams, tools []turns.PreviewTool) error {
	_, err := fmt.Fprintf(streams.Out, "\n=== Tools (%d) ===\n", len(tools))
	t := newTable(streams, "TOOL", "OF", "SIZE")
	for _, tool := range tools {
		t.row(tool.Name, tool.Server, bytesText(len(tool.Description)+len(tool.Parameters)))
	}
	return errors.Join(err, t.end())
}

func itemText(item responses.Item) (kind, text string) {
	switch item := item.(type) {
	case *responses.Message:
		return string(item.Role), partsText(item.Content)
	case *responses.FunctionCallOutput:
		return "output of " + item.CallID, partsText(item.Output)
	case *responses.FunctionCall:
		return "call of " + item.Name, item.Arguments
	case *responses.ToolCall:
		return "call of " + item.Name, string(item.Arguments) + "\n" + item.Output
	}
	data, err := json.Marshal(item)
	if err != nil {
		return string(item.ItemType()), err.Error()
	}
	return string(item.ItemType()), string(data)
}

// partsText is the text of parts, with a word for each that is none.
func partsText(parts []responses.Part) string {
	texts := make([]string, len(parts))
	for i, p := range parts {
		texts[i] = cmp.Or(p.Text+p.Refusal, "["+string(p.Type)+"]")
	}
	return strings.Join(texts, "\n")
}
