package turns

// skillActivated is the class of the fact that a turn began to use a skill. The
// runtime specification calls it skill_activated; classes of our own carry our
// prefix.
const skillActivated = "holon.skill.activated"

// Skill is the payload of holon.skill.activated.
type Skill struct {
	SkillID          string `json:"skill_id"` // scope/name
	Name             string `json:"name"`
	Scope            string `json:"scope"`                      // user, agent, workspace
	LoadReason       string `json:"load_reason"`                // read_skill_md, run_skill_script
	Path             string `json:"path" max:"1024"`            // the SKILL.md that was read, or the script that was run
	EntrypointPath   string `json:"entrypoint_path" max:"1024"` // the skill's SKILL.md
	ActivationSource string `json:"activation_source"`
	ActivationState  string `json:"activation_state"`
	Digest           string `json:"digest,omitzero"` // of the SKILL.md, "sha256:" and hex
}

// skillActivated says that the tool call with the given id used a skill.
func (s Scope) SkillActivated(toolCallID string, p Skill) RuntimeEvent {
	return s.ofCall(skillActivated, "", toolCallID, p)
}
