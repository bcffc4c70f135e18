// Package skills finds and reads skills: folders with a SKILL.md whose front
// matter says in a line what the skill is for, and whose body an agent opens
// when a task fits.
//
//	---
//	name: pdf-forms
//	description: Fill in and check PDF forms.
//	---
//	…
//
// The invariant: nothing outside the folder given is read, even through links,
// and a prompt gets one bounded line for each skill, never a body.
// The result depends on the files alone: names are sorted.
//
// It promises nothing about files that change while they are read, and does not
// judge what a skill says.
package skills

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"holon/internal/roots"
)

// File is the name of the file that makes a folder a skill.
const File = "SKILL.md"

// maxSkills bounds the skills of one root, so that a catalogue fits a prompt.
const maxSkills = 256

// Skill is one skill that was found.
type Skill struct {
	Name        string // the folder's name, if it can be one
	Description string // one line
	Path        string // of its SKILL.md: beneath the root as it was given
	Scope       Scope  // where it was found; "" outside of [Roots.Discover]
}

// ID names a skill among those of all scopes: "<scope>/<name>".
func (s Skill) ID() string { return string(s.Scope) + "/" + s.Name }

// Dir is the skill's folder.
func (s Skill) Dir() string { return filepath.Dir(s.Path) }

// InvalidSkill is a skill that can't be used, and why. It is an error.
type InvalidSkill struct {
	Code    problemCode
	Path    string // of the file or folder at fault
	Field   string // of the front matter, if one is at fault
	Message string
	Hint    string
	Err     error // the cause, may be nil
}

// problemCode classifies an InvalidSkill.
type problemCode string

// The codes of InvalidSkill.
const (
	codeUnreadable  problemCode = "skill_unreadable"   // a file or folder can't be read
	codeNoSkill     problemCode = "skill_file_missing" // the folder has no SKILL.md
	codeFrontMatter problemCode = "skill_invalid"      // Field names what is wrong
	codeUnsafe      problemCode = "skill_unsafe"       // a link that leads out, or a special file
	codeTooLarge    problemCode = "skill_too_large"
	codeDuplicate   problemCode = "skill_duplicate" // two skills of one name
	codeDigest      problemCode = "skill_digest"    // not what was pinned
)

// Error returns the path, the field, the message and the cause on one line,
// without the hint.
func (p *InvalidSkill) Error() string {
	text := fmt.Sprintf("skill %q: ", p.Path)
	if p.Field != "" {
		text += p.Field + ": "
	}
	text += p.Message
	if p.Err != nil {
		text += ": " + p.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (p *InvalidSkill) Unwrap() error { return p.Err }

// discoverIn returns the skills in the folders of root, sorted by name, and what
// is wrong with the others. A root that does not exist has none. Hidden folders
// and plain files in the root are not skills.
func discoverIn(root string) ([]Skill, []InvalidSkill) {
	dir, err := roots.Open(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, []InvalidSkill{*unreadable(root, err)}
	}
	defer dir.Close()
	return discover(dir, root)
}

func unreadable(root string, err error) *InvalidSkill {
	return &InvalidSkill{Code: codeUnreadable, Path: root, Message: "the folder can't be read",
		Hint: "give a readable folder", Err: err}
}

// noFolder is the error for what is named as a skill and can't be opened.
func noFolder(path string, err error) *InvalidSkill {
	return &InvalidSkill{Code: codeUnreadable, Path: path, Message: "the folder can't be read",
		Hint: "give the folder that holds a " + File, Err: err}
}

// discover finds the skills of dir, which is called root.
func discover(dir *os.Root, root string) (skills []Skill, problems []InvalidSkill) {
	names, err := candidates(dir)
	if err != nil {
		return nil, []InvalidSkill{*unreadable(root, err)}
	}
	for i, name := range names {
		if i == maxSkills {
			problems = append(problems, InvalidSkill{Code: codeTooLarge, Path: root,
				Hint:    "remove those that are not needed",
				Message: fmt.Sprintf("%d folders, only the first %d are used", len(names), maxSkills)})
			break
		}
		skill, problem := read(dir, root, name)
		if problem != nil {
			problems = append(problems, *problem)
			continue
		}
		skills = append(skills, skill)
	}
	return skills, problems
}

// candidates returns the sorted names that are folders, or links: what a link
// leads to shows when it is read.
func candidates(dir *os.Root) ([]string, error) {
	entries, err := fs.ReadDir(dir.FS(), ".") // sorted
	if err != nil {
		return nil, err
	}
	var names []string
	for _, entry := range entries {
		if (entry.IsDir() || entry.Type() == fs.ModeSymlink) && !strings.HasPrefix(entry.Name(), ".") {
			names = append(names, entry.Name())
		}
	}
	return names, nil
}

// read reads the skill in the folder name of dir, which is root.
func read(dir *os.Root, root, name string) (Skill, *InvalidSkill) {
	path := filepath.Join(root, name, File)
	front, problem := readFront(dir, filepath.Join(name, File), path)
	if problem != nil {
		return Skill{}, problem
	}
	if validName(name) { // which is its name, whatever the file says
		front.Name = name
	}
	return Skill{Name: front.Name, Description: front.Description, Path: path}, nil
}

// readFront reads the front matter of a file of dir. path is how it is called in problems.
func readFront(dir *os.Root, name, path string) (frontMatter, *InvalidSkill) {
	text, problem := readFile(dir, name, path)
	if problem != nil {
		return frontMatter{}, problem
	}
	return parse(text, path)
}

// check refuses another name than the folder's.
func (f frontMatter) check(folder, path string) *InvalidSkill {
	if f.Name == folder {
		return nil
	}
	return &InvalidSkill{Code: codeFrontMatter, Path: path, Field: "name",
		Message: fmt.Sprintf("%q is not the folder's name %q", f.Name, folder), Hint: "rename one of them"}
}

// readFile reads as much of the file as front matter may take. path is how it
// is called in problems.
func readFile(dir *os.Root, name, path string) ([]byte, *InvalidSkill) {
	f, _, err := roots.OpenFile(dir, name)
	if err != nil {
		return nil, openProblem(dir, name, path, err)
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxFrontMatter+1))
	if err != nil {
		return nil, &InvalidSkill{Code: codeUnreadable, Path: path, Message: "the file can't be read",
			Hint: "look at its permissions", Err: err}
	}
	return text, nil
}

// openProblem is what is wrong with a file that cannot be opened. The only error without a kind of its own is the
// refusal of os.Root to leave dir.
func openProblem(dir *os.Root, name, path string, err error) *InvalidSkill {
	p := &InvalidSkill{Code: codeUnsafe, Path: path, Message: "a link leads out of the folder",
		Hint: "copy what it names into the folder", Err: err}
	_, linkErr := dir.Stat(filepath.Dir(name))
	switch {
	case errors.Is(err, fs.ErrNotExist) && linkErr == nil, errors.Is(err, syscall.ENOTDIR): // a link to a plain file
		p.Code, p.Message, p.Err = codeNoSkill, "the file does not exist", nil
		p.Hint = "add a " + File + " that begins with a name and a description"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		p.Code, p.Message, p.Err = codeUnreadable, "a link leads nowhere", nil
		p.Hint = "remove the link or copy what it should name"
	case errors.Is(err, fs.ErrPermission):
		p.Code, p.Message, p.Hint = codeUnreadable, "the file can't be read", "look at its permissions"
	case errors.Is(err, roots.ErrNotRegular):
		p.Message, p.Hint, p.Err = err.Error(), "replace it by a text file", nil
	}
	return p
}

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
