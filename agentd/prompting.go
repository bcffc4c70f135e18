package agentd

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"holon/agentd/activation"
	"holon/agentd/config"
	"holon/agentd/prompt"
	"holon/agentd/turn"
	"holon/responses"
	"holon/responses/turns"
	"holon/skills"
)

// telling is what a turn's model is told besides the conversation.
type telling struct {
	tree    string           // the working tree, "" for none
	anchor  string           // whose AGENTS.md and skills count, "" for none
	skills  skills.Catalog   // those that the turn may use
	active  []string         // what the session has in use: id and state
	prompt  prompt.Prompt    // as it is now
	context []responses.Item // what of it the conversation does not say yet
	tools   []string         // names of all tools that are offered
}

// telling assembles the prompt of a turn. Files that cannot be read are left out
// with a note: a broken file of the workspace must not stop its repair.
func (s *Server) telling(req *responses.Request, toolset turn.Toolset, past thread, dirs directories) (telling, error) {
	var t telling
	if dirs.workDir != dirs.artifacts() {
		t.tree = dirs.workDir
	}
	t.anchor = cmp.Or(dirs.anchor, t.tree)
	s.parts.Users.Do(func() { t.skills = s.cfg.SkillRoots(t.anchor).Discover() })
	if err := t.choose(req.Holon.Skills); err != nil {
		return t, err
	}
	active, err := s.sessions.Load(past.sessionID)
	if err != nil {
		s.log.Warn("the session's skills are forgotten", "session", past.sessionID, "err", err)
	}
	for _, a := range active {
		if !slices.ContainsFunc(t.skills.Skills, func(s skills.Skill) bool { return s.Path == a.Path }) {
			continue
		}
		t.active = append(t.active, a.SkillID+" "+a.ActivationState)
	}
	s.parts.Users.Do(func() {
		t.assemble(&s.cfg, req, unshadowed(toolNames(toolset.Definitions()), req), inUse(t.skills, active),
			dirs.inputDir != "")
	})
	t.context = t.prompt.Items(past.history)
	return t, nil
}

// choose leaves the skills with the given names; nil leaves all.
func (t *telling) choose(names *[]string) error {
	if names == nil {
		return nil
	}
	known := t.skills.Names()
	for i, name := range *names {
		if !slices.Contains(known, name) {
			e := responses.Invalid(fmt.Sprintf("holon.skills[%d]", i), responses.CodeInvalidValue,
				fmt.Sprintf("there is no skill %.100q", name))
			e.Hint = "GET /health lists the skills that there are; leave holon.skills out for all of them"
			return e
		}
	}
	t.skills.Skills = slices.DeleteFunc(slices.Clone(t.skills.Skills), func(skill skills.Skill) bool {
		return !slices.Contains(*names, skill.Name)
	})
	return nil
}

// assemble is the part that `agentd debug prompt` shares.
func (t *telling) assemble(cfg *config.Config, req *responses.Request, container []string, active []skills.Skill,
	hasInput bool) {
	mode := prompt.ModeConversation
	if !cfg.Server.Serves() { // there cannot be another turn
		mode = prompt.ModeOnce
	}
	in := prompt.Input{Mode: mode, AgentHome: cfg.Agent.Home, WorkDir: t.tree, Anchor: t.anchor, HasInput: hasInput,
		Services: cfg.Commands.Services, Skills: t.skills.Skills, Active: active, Tools: container,
		Instructions: value(req.Instructions)}
	t.prompt = prompt.Assemble(in)
	t.tools = container
	for _, tool := range req.Tools {
		t.tools = append(t.tools, tool.Name)
	}
}

// checkShadows refuses a function that would take the place of a tool in a turn that the host announced to its client:
// the tools are those of an agent, and not for its client to replace.
func checkShadows(req *responses.Request, names []string) error {
	if req.Holon.ResponseID == "" {
		return nil
	}
	for i, t := range req.Tools {
		if slices.Contains(names, t.Name) {
			return responses.Invalid(fmt.Sprintf("tools[%d].name", i), responses.CodeInvalidValue,
				"the agent has a tool "+t.Name+" of its own")
		}
	}
	return nil
}

// unshadowed deletes from the names of the container's tools those that the request replaces
// by functions of the client.
func unshadowed(names []string, req *responses.Request) []string {
	return slices.DeleteFunc(names, func(name string) bool {
		return slices.ContainsFunc(req.Tools, func(t responses.Tool) bool { return t.Name == name })
	})
}

// inUse returns the skills of the catalogue that the session has in use.
func inUse(catalog skills.Catalog, active []activation.Active) []skills.Skill {
	var list []skills.Skill
	for _, skill := range catalog.Skills {
		if slices.ContainsFunc(active, func(a activation.Active) bool { return a.Path == skill.Path }) {
			list = append(list, skill)
		}
	}
	return list
}

// adding is what the turn adds to the conversation: the context and input,
// the request's. Outputs of calls come first, since providers want them right
// behind the calls.
func (p *plan) adding(input []responses.Item) []responses.Item {
	at := 0
	for at < len(input) && input[at].ItemType() == responses.ItemFunctionCallOutput {
		at++
	}
	return slices.Concat(input[:at], p.context, input[at:])
}

// resolved says what the turn starts from, for its record.
func (p *plan) resolved() turns.Context {
	return turns.Context{
		PreviousResponseID: p.req.PreviousResponseID, Items: len(p.history) + len(p.req.Input),
		Instructions: p.prompt.SourceNames(),
		Tools:        p.tools, Omissions: p.prompt.Notes(), Skills: p.skills.IDs(), ActiveSkills: p.active,
		Fingerprint: p.prompt.Fingerprint(),
	}
}

// home returns the home directory that commands have.
func home(environ []string) string {
	for _, kv := range environ {
		if dir, ok := strings.CutPrefix(kv, "HOME="); ok {
			return dir
		}
	}
	return ""
}

// refuseContext refuses input that claims to be what agentd itself tells models.
func refuseContext(input []responses.Item) error {
	for i, item := range input {
		if responses.IsContext(item) {
			return responses.Invalid(fmt.Sprintf("input[%d].id", i), responses.CodeInvalidValue,
				fmt.Sprintf("ids that begin with %s are reserved; leave the id out", responses.PrefixContext))
		}
	}
	return nil
}
