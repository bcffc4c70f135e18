package git

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Configured is a path of the working tree that git runs, or reads settings or hooks from, since a setting names it.
type Configured struct {
	Path    string // slash-separated
	Below   bool   // so is everything below it
	Setting string // such as core.fsmonitor
}

// programs are the settings whose values git runs in commands that do not name them, by their section and their last
// part. What only a command of a person's own runs, such as an alias, is not among them.
var programs = map[string][]string{
	"core":        {"fsmonitor", "sshcommand", "gitproxy", "askpass", "editor", "pager", "alternaterefscommand"},
	"credential":  {"helper"},
	"diff":        {"external", "command", "textconv"},
	"filter":      {"clean", "smudge", "process"},
	"gpg":         {"program", "defaultkeycommand"},
	"hook":        {"command"},
	"interactive": {"difffilter"},
	"merge":       {"driver"},
	"remote":      {"uploadpack", "receivepack"},
	"sequence":    {"editor"},
	"submodule":   {"update"},
	"trailer":     {"command", "cmd"},
	"uploadpack":  {"packobjectshook"},
}

// maxIncludes bounds the files that Configured reads.
const maxIncludes = 64

// Configured returns what the settings of the system, the user and the repository name in the working tree. They are
// read as data, with all that they include, whatever the condition.
func (u *UserRepository) Configured() []Configured {
	c := configuration{top: u.Top}
	system, set := os.LookupEnv("GIT_CONFIG_SYSTEM")
	if !set {
		system = "/etc/gitconfig"
	}
	c.read(system)
	for _, file := range globalFiles() {
		c.read(file)
	}
	c.read(filepath.Join(u.CommonDir, "config"))
	c.read(filepath.Join(u.GitDir, "config.worktree"))
	return c.found
}

// configuration collects what files of settings name.
type configuration struct {
	top   string
	files []string // that were read
	found []Configured
}

func (c *configuration) read(file string) {
	if len(c.files) == maxIncludes || slices.Contains(c.files, file) {
		return
	}
	c.files = append(c.files, file)
	text := strings.TrimPrefix(ReadSmall(file), "\ufeff")
	_ = parseSettings(text, func(key, value string) { // what stands before an error counts
		section, _, _ := strings.Cut(key, ".")
		name := key[strings.LastIndexByte(key, '.')+1:]
		switch {
		case (section == "include" || section == "includeif") && name == "path":
			included := expand(value, filepath.Dir(file))
			c.add(included, true, key)
			c.read(included)
		case key == "core.hookspath", key == "core.attributesfile", key == "init.templatedir":
			c.add(expand(value, c.top), true, key)
		case section == "pager", slices.Contains(programs[section], name):
			c.command(value, key)
		}
	})
}

// command adds the words of a command that may be files of the tree, where git starts it. A first word without a slash
// is a program that the shell looks up.
func (c *configuration) command(value, key string) {
	words := strings.FieldsFunc(strings.TrimPrefix(value, "!"), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune("'\"`;|&()<>{}=,", r)
	})
	for i, word := range words {
		slash := strings.IndexByte(word, '/')
		if i == 0 && slash < 0 || strings.HasPrefix(word, "-") {
			continue
		}
		if slash >= 0 && strings.HasPrefix(word, "$") { // $PWD/x
			word = word[slash:]
		}
		c.add(expand(word, c.top), slash >= 0, key)
		if strings.HasPrefix(word, "/") && strings.Contains(value, "$") { // $(git rev-parse --show-toplevel)/x
			c.add(filepath.Join(c.top, word), true, key)
		}
	}
}

// expand makes a path of a setting absolute, as git does.
func expand(value, dir string) string {
	if rest, ok := strings.CutPrefix(value, "~/"); ok {
		if home, err := os.UserHomeDir(); err == nil {
			return filepath.Join(home, rest)
		}
	}
	return absoluteFrom(dir, value)
}

// add adds a path within the tree, and where links lead from it.
func (c *configuration) add(path string, below bool, key string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path // it is not there yet
	}
	for _, at := range slices.Compact([]string{path, real}) {
		rel, err := filepath.Rel(c.top, at)
		if err == nil && rel != "." && filepath.IsLocal(rel) {
			c.found = append(c.found, Configured{Path: filepath.ToSlash(rel), Below: below, Setting: key})
		}
	}
}
