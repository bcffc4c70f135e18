package skills

import "strings"

// Catalogue returns the text that tells a model which skills there are: name,
// description and path of each, never a body. It is empty where there are
// none, and the same for the same skills.
func Catalogue(skills []Skill) string {
	if len(skills) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Skills\n\n" +
		"A skill is a folder of instructions for one kind of task. When a task fits the description of a skill, " +
		"read its " + File + " before you begin and follow it; paths in it are relative to its folder. " +
		"Do not read skills that do not fit.\n\n")
	for _, skill := range skills {
		b.WriteString("- " + skill.Name + ": " + skill.Description + " (" + skill.Path + ")\n")
	}
	return b.String()
}
