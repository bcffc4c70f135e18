package tools

import (
	"context"
	"fmt"

	"holon/runner/agent/scheduler"
	"holon/runner/agent/view"
	"holon/runner/hosttools"
	"holon/state"
	"holon/state/ledger"
)

const useWorkspaceDescription = "Makes a workspace the one you work in, from your next call on: your commands, " +
	"patches and files are in your private copy of it. Give either workspace_id (one that is attached, or agent_home " +
	"for your home) or path (an absolute directory that your operator named). mode isolated makes a fresh copy for a " +
	"task of its own. Nothing is lost by a switch."

// workspaces are those of agents: *trees.Trees.
type workspaces interface {
	Enter(ctx context.Context, agentID string, s view.Selection) (view.Selected, error)
}

type useWorkspace struct {
	Path        string          `json:"path,omitempty" jsonschema:"an absolute directory that your operator named"`
	WorkspaceID string          `json:"workspace_id,omitempty" jsonschema:"an attached one by id or alias, or agent_home"`
	Mode        ledger.TreeMode `json:"mode,omitempty" jsonschema:"direct if left out: your own copy; isolated: a fresh one"`
}

// used is the result of UseWorkspace.
type used struct {
	view.Entered
	// Instructions are those of the workspace.
	Instructions string `json:"workspace_instructions,omitempty"`
}

// workspace are the tools for workspaces.
func (o Options) workspace() []hosttools.Tool {
	if o.Workspaces == nil {
		return nil
	}
	return []hosttools.Tool{
		tool(o, hosttools.Tool{Name: "UseWorkspace", Description: useWorkspaceDescription}, o.useWorkspace),
	}
}

// useWorkspace is UseWorkspace. The calls that begin after it work in the new directory.
func (o Options) useWorkspace(ctx context.Context, c hosttools.Call, args useWorkspace) (hosttools.Result, error) {
	now, err := o.Workspaces.Enter(ctx, o.AgentID, view.Selection{Path: args.Path, WorkspaceID: args.WorkspaceID,
		Mode: args.Mode, Key: c.ID, By: "agent " + o.AgentID})
	if err != nil {
		return hosttools.Result{}, workspaceRefusal(err)
	}
	text := fmt.Sprintf("%s\nworkspace: %s (%s); directory: %s", now.SummaryText, now.WorkspaceID, now.WorkspaceAnchor,
		now.Cwd)
	if now.Guidance != "" {
		text += fmt.Sprintf("\n\n%s of the workspace says how work is done there:\n\n%s", now.GuidanceName, now.Guidance)
	}
	result, err := show(text, used{now.Entered, now.Guidance})
	result.Directive.WorkingDirectory = now.WorkDir
	return result, err
}

// workspaceRefusal shows the model why it cannot work somewhere. What is the host's own business it is not shown.
func workspaceRefusal(err error) error {
	e, ok := err.(*state.Error) //nolint:errorlint // Enter returns it as it is
	if !ok || e.Code == scheduler.CodeWorkspaceFailed {
		return err
	}
	if e.Code == scheduler.CodeInvalidWorkspace && (e.Param == "path" || e.Param == "mode") {
		return invalid(e.Param, e.Message, e.Hint)
	}
	return &hosttools.ToolError{Kind: string(e.Code), Message: e.Message, Hint: e.Hint, Field: e.Param,
		Retryable: e.Code == "busy"}
}
