package turns

// skillActivated is the class of the fact that a turn began to use a skill. The
// runtime specification calls it skill_activated; classes of our own carry our
// prefix.
const skillActivated = "holon.skill.activated"

// Skill is the payload of holon.skill.activated.
type Skill struct {
	SkillID          string `json:"skill_id"` // scope/name
	Name             string `json:"name"`
	Scope            string `json:"scope"`           // user, agent, workspace
	LoadReason       string `json:"load_reason"`     // read_skill_md, run_skill_script
	Path             string `json:"path"`            // the SKILL.md that was read, or the script that was run
	EntrypointPath   string `json:"entrypoint_path"` // the skill's SKILL.md
	ActivationSource string `json:"activation_source"`
	ActivationState  string `json:"activation_state"`
	Digest           string `json:"digest,omitempty"` // of the SKILL.md, "sha256:" and hex
}

// maxPath bounds a path within a payload.
const maxPath = 1 << 10

// skillActivated says that the tool call with the given id used a skill.
func (s Scope) SkillActivated(toolCallID string, p Skill) RuntimeEvent {
	p.SkillID, p.Name, p.Scope = clip(p.SkillID, maxName), clip(p.Name, maxName), clip(p.Scope, maxName)
	p.LoadReason, p.Path, p.EntrypointPath = clip(p.LoadReason, maxName), clip(p.Path, maxPath),
		clip(p.EntrypointPath, maxPath)
	p.ActivationSource, p.ActivationState, p.Digest = clip(p.ActivationSource, maxName),
		clip(p.ActivationState, maxName), clip(p.Digest, maxName)
	e := s.event(skillActivated, "", p)
	e.ToolCallID, e.StepID = toolCallID, stepOf(toolCallID)
	return e
}
