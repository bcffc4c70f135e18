package tools

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"holon/runner/agent/memorysearch"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
)

// Names of the tools for memory.
const (
	nameMemorySearch = "MemorySearch"
	nameMemoryGet    = "MemoryGet"
)

const (
	memorySearchDescription = "Searches what you remember: memory/self.md and memory/operator.md of your home, your " +
		"briefs, earlier episodes, work items with their plans, and workspaces. It searches no other files. It finds what " +
		"belongs to the workspace in which you work, and what belongs to you wherever you work. Use the words that the " +
		"text would have, in its language."
	memoryGetDescription = "Shows the exact text of a memory. source_ref is copied from a result of MemorySearch; it is " +
		"no path and no id."
)

// memories are those of agents: *memorysearch.Service.
type memories interface {
	Search(ctx context.Context, agentID string, q view.MemoryQuery) (view.MemoryResults, error)
	Get(ctx context.Context, agentID, ref string, limit int) (view.MemorySource, error)
}

type memorySearch struct {
	Query         string `json:"query" jsonschema:"words to find; operators mean nothing"`
	Limit         *int   `json:"limit,omitempty" jsonschema:"at most so many results, 10 if left out, 50 at most"`
	AllWorkspaces bool   `json:"include_all_workspaces,omitempty" jsonschema:"also what belongs to other workspaces"`
}

type memoryGet struct {
	Ref      string `json:"source_ref"`
	MaxChars *int   `json:"max_chars,omitempty" jsonschema:"from 1 to 50000, 12000 if left out"`
}

// memory are the tools for what the agent remembers.
func (o Options) memory() []hosttools.Tool {
	if o.Memory == nil {
		return nil
	}
	return []hosttools.Tool{
		tool(o, hosttools.Tool{Name: nameMemorySearch, Description: memorySearchDescription}, o.memorySearch),
		tool(o, hosttools.Tool{Name: nameMemoryGet, Description: memoryGetDescription}, o.memoryGet, "source_ref"),
	}
}

func (o Options) memorySearch(ctx context.Context, _ hosttools.Call, args memorySearch) (hosttools.Result, error) {
	limit := view.DefaultMemories
	if args.Limit != nil {
		if limit = *args.Limit; limit < 1 || limit > view.MaxMemories {
			return hosttools.Result{}, invalid("limit", fmt.Sprintf("%d is not a number from 1 to %d", limit,
				view.MaxMemories), "leave it out")
		}
	}
	found, err := o.Memory.Search(ctx, o.AgentID, view.MemoryQuery{Text: args.Query, Limit: limit,
		AllWorkspaces: args.AllWorkspaces})
	if err != nil {
		return hosttools.Result{}, memoryRefusal(err)
	}
	text := []string{fmt.Sprintf("%d found", len(found.Results))}
	for _, m := range found.Results {
		text = append(text, fmt.Sprintf("%s %s, %s: %s\n  %s", m.SourceRef, m.Kind,
			m.UpdatedAt.Time().UTC().Format("2006-01-02"), line(m.Title), line(m.Snippet)))
	}
	return show(strings.Join(text, "\n"), found)
}

func (o Options) memoryGet(ctx context.Context, _ hosttools.Call, args memoryGet) (hosttools.Result, error) {
	limit := view.DefaultMemoryChars
	if args.MaxChars != nil {
		if limit = *args.MaxChars; limit < 1 || limit > view.MaxMemoryChars {
			return hosttools.Result{}, invalid("max_chars", fmt.Sprintf("%d is not a number from 1 to %d", limit,
				view.MaxMemoryChars), "leave it out")
		}
	}
	m, err := o.Memory.Get(ctx, o.AgentID, args.Ref, limit)
	if err != nil {
		return hosttools.Result{}, memoryRefusal(err)
	}
	summary := fmt.Sprintf("%s, %s", m.Kind, line(m.Title))
	if m.Truncated {
		summary += ", its beginning"
	}
	result, err := show(summary+"\n"+m.Content, m)
	result.Summary = summary // the record has where it is, and not once more what it says
	return result, err
}

// memoryRefusal shows the model why there is no memory.
func memoryRefusal(err error) error {
	e, ok := errors.AsType[*state.Error](err)
	if ok && (e.Code == memorysearch.CodeInvalidQuery || e.Code == ledger.CodeNotFound && e.Param == "source_ref") {
		return &hosttools.ToolError{Kind: string(e.Code), Message: e.Message, Hint: e.Hint, Field: e.Param}
	}
	return err
}
