package agentd

import (
	"path/filepath"

	"holon/agentd/config"
	"holon/agentd/process"
	"holon/agentd/prompt"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/responses"
	"holon/skills"
)

// PromptReport is what `agentd debug prompt` shows: what a model would be told
// at the beginning of a conversation, and where each part comes from.
type PromptReport struct {
	AgentHome     string          `json:"agent_home"`
	AgentRole     string          `json:"agent_role"`
	Workspace     string          `json:"workspace_anchor"` // whose AGENTS.md and skills count
	ExecutionRoot string          `json:"execution_root"`   // where commands start
	Confinement   string          `json:"execution_policy"`
	Tools         []string        `json:"tools"`
	Fingerprint   string          `json:"fingerprint"`
	Bytes         int             `json:"bytes"` // of Text
	Sources       []prompt.Source `json:"sources"`
	SkillRoots    []skillRoot     `json:"skill_roots"`
	Notes         []string        `json:"notes"` // what was cut or left out
	Text          string          `json:"text"`
}

// skillRoot is a folder that skills come from.
type skillRoot struct {
	Scope  string   `json:"scope"`
	Path   string   `json:"path"`
	Skills []string `json:"skills"`
}

// DebugPrompt assembles the prompt of a request as a turn would. It opens no
// store, starts nothing and writes nothing, so it may be used while a server
// runs. It does not look at earlier turns of a continued conversation.
func DebugPrompt(cfg config.Config, req *responses.Request) (*PromptReport, error) {
	t, hasInput, err := planTelling(&cfg, req)
	if err != nil {
		return nil, err
	}
	// to be asked what there is, not to be run
	registry, err := toolset(cfg, new(process.Supervisor), new(tasks.Manager))
	if err != nil {
		return nil, err
	}
	t.skills = cfg.SkillRoots(t.anchor).Discover()
	t.assemble(&cfg, req, unshadowed(toolNames(registry.Definitions()), req), nil, hasInput)
	report := &PromptReport{
		AgentHome: cfg.Agent.Home, AgentRole: cfg.Agent.Role, Workspace: t.anchor, ExecutionRoot: t.tree,
		Confinement: "none by agentd; the container confines",
		Tools:       t.tools, Fingerprint: t.prompt.Fingerprint(), Sources: t.prompt.Sources, SkillRoots: []skillRoot{},
		Notes: append([]string{}, t.prompt.Notes()...), Text: t.prompt.Text(),
	}
	report.Bytes = len(report.Text)
	for _, root := range t.skills.Roots {
		report.SkillRoots = append(report.SkillRoots,
			skillRoot{string(root.Scope), root.Path, namesIn(t.skills.Skills, root.Scope)})
	}
	for _, problem := range t.skills.Problems {
		report.Notes = append(report.Notes, problem.Error()+"; "+problem.Hint)
	}
	if req.PreviousResponseID != "" {
		report.Notes = append(report.Notes,
			"the request continues a conversation: its model was told this, or an earlier form of it, at the "+
				"beginning, and gets only what has changed since")
	}
	return report, nil
}

// planTelling finds the working tree and the anchor of a request, as directories does for a turn.
func planTelling(cfg *config.Config, req *responses.Request) (t telling, hasInput bool, err error) {
	tree := cfg.StartDir()
	if dir := req.Holon.WorkspaceDir; dir != "" {
		if tree, err = confine("holon.workspace_dir", cfg.Dirs.Workspace, dir); err != nil {
			return t, false, err
		}
	}
	if isDir(tree) {
		t.tree = tree
	}
	t.anchor = t.tree
	if dir := req.Holon.AnchorDir; dir != "" {
		if t.anchor, err = existing("holon.anchor_dir", cfg.Dirs.Anchors, dir); err != nil {
			return t, false, err
		}
	}
	hasInput = req.Holon.InputDir != "" ||
		req.Holon.TurnID != "" && isDir(filepath.Join(cfg.Dirs.Input, "turns", req.Holon.TurnID))
	return t, hasInput, nil
}

func namesIn(list []skills.Skill, scope skills.Scope) []string {
	names := []string{}
	for _, skill := range list {
		if skill.Scope == scope {
			names = append(names, skill.Name)
		}
	}
	return names
}

func toolNames(definitions []tools.Definition) []string {
	var names []string
	for _, def := range definitions {
		names = append(names, def.Name)
	}
	return names
}
