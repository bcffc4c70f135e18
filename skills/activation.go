package skills

import (
	"path/filepath"
	"strings"
	"unicode"
)

// loadReason says by what a skill became active.
type loadReason string

// The load reasons (runtime specification, "Skill Discovery And Activation
// Contract"). A third, prompt_injection, is reserved there.
const (
	readSkillMD    loadReason = "read_skill_md"
	runSkillScript loadReason = "run_skill_script"
)

// activation is the use of a skill.
type activation struct {
	Skill  Skill
	Reason loadReason
	Path   string // the SKILL.md that was read, or the script that was run
}

// scriptsDir is the folder of a skill whose files count as its scripts.
const scriptsDir = "scripts"

// Activated returns the skills that a shell command refers to when it runs in
// dir: by the path of a SKILL.md or of a file beneath scripts/, each once, in
// the order in which the command names them. home is what ~ and $HOME mean.
//
// It compares paths and does not run a shell. Text that only a shell could resolve
// (a variable, a pattern, a path with spaces) is not a reference: a missed use
// costs a note in the record, a wrong one would make the record untrue.
func (c Catalog) Activated(command, dir, home string) []activation {
	byDir := make(map[string]Skill, len(c.Skills))
	for _, skill := range c.Skills {
		byDir[skill.Dir()] = skill
	}
	if len(byDir) == 0 {
		return nil
	}
	var list []activation
	seen := make(map[string]bool)
	previous := ""
	for token := range strings.FieldsFuncSeq(expandHome(command, home), notPath) {
		path := resolve(token, dir, home)
		if previous == "cd" {
			dir = path
		}
		previous = token
		a, ok := reference(byDir, path)
		if ok && !seen[a.Path] {
			seen[a.Path] = true
			list = append(list, a)
		}
	}
	return list
}

// reference returns the use of a skill that a clean path stands for.
func reference(byDir map[string]Skill, path string) (activation, bool) {
	if filepath.Base(path) == File {
		skill, ok := byDir[filepath.Dir(path)]
		return activation{skill, readSkillMD, path}, ok
	}
	const middle = "/" + scriptsDir + "/"
	for at := 0; ; {
		i := strings.Index(path[at:], middle)
		if i < 0 {
			return activation{}, false
		}
		if skill, ok := byDir[path[:at+i]]; ok {
			return activation{skill, runSkillScript, path}, true
		}
		at += i + 1
	}
}

// notPath reports whether r ends a path in a command. Quotes do, so that what
// is quoted for another shell or interpreter is looked into as well.
func notPath(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune("/._-+@%~", r)
}

func expandHome(command, home string) string {
	if home == "" {
		return command
	}
	return strings.NewReplacer("$HOME/", home+"/", "${HOME}/", home+"/").Replace(command)
}

func resolve(token, dir, home string) string {
	if rest, ok := strings.CutPrefix(token, "~/"); ok && home != "" {
		return filepath.Join(home, rest)
	}
	if filepath.IsAbs(token) {
		return filepath.Clean(token)
	}
	return filepath.Join(dir, token)
}
