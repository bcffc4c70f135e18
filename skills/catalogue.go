package skills

import (
	"fmt"
	"strings"
)

// maxCatalogue bounds the text of a catalogue: a prompt has other things to
// say, and a repository may bring any number of skills.
const maxCatalogue = 32 << 10

// Catalogue returns the text that tells a model which skills there are: name,
// description and path of each, never a body. It is empty where there are
// none, at most 32 KiB long, and the same for the same skills.
func Catalogue(skills []Skill) string {
	if len(skills) == 0 {
		return ""
	}
	var b strings.Builder
	b.WriteString("# Skills\n\n" +
		"A skill is a folder of instructions for one kind of task. When a task fits the description of a skill, " +
		"read its " + File + " before you begin and follow it; paths in it are relative to its folder. " +
		"Do not read skills that do not fit.\n\n")
	for i, skill := range skills {
		line := "- " + skill.Name + ": " + skill.Description + " (" + oneLine(skill.Path) + ")\n"
		if b.Len()+len(line) > maxCatalogue {
			fmt.Fprintf(&b, "- and %d more, which are not listed; they are in the same folders\n", len(skills)-i)
			break
		}
		b.WriteString(line)
	}
	return b.String()
}
