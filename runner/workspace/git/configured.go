package git

import (
	"context"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"holon/internal/pattern"
)

// Configured is a path of the working tree that git runs, or reads settings or hooks from, since a setting names it.
type Configured struct {
	Path     string // slash-separated; so is everything below it, unless Anywhere
	Anywhere bool   // Path is a pattern for the end of paths, with or without an extension, and of directories
	Setting  string // such as core.fsmonitor
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

// ConfiguredWith is Configured with what the settings of submodules name in them.
func (u *UserRepository) ConfiguredWith(ctx context.Context, submodules []string) []Configured {
	all := u.Configured()
	for _, module := range submodules {
		sub, err := u.OpenSubmodule(ctx, module)
		if err != nil || sub == nil {
			continue // no git of a person works there
		}
		for _, c := range sub.Configured() {
			if !c.Anywhere {
				c.Path = path.Join(module, c.Path)
			}
			all = append(all, c)
		}
	}
	return all
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
			c.add(included, key)
			c.read(included)
		case key == "core.hookspath", key == "core.attributesfile", key == "init.templatedir":
			c.add(expand(value, c.top), key)
		case section == "pager", slices.Contains(programs[section], name):
			c.command(value, key)
		}
	})
}

// command adds what the words of a command may name in the tree. Which they do depends on a shell, a directory and
// variables, so each word counts as a path from the top with all below it, and, if it looks like one of a file, as the
// end of any path. A first word that is a plain name is a program of the PATH.
func (c *configuration) command(value, key string) {
	value = strings.ReplaceAll(strings.TrimPrefix(value, "!"), `\`, "")
	for _, text := range []string{value, strings.ReplaceAll(value, c.top+"/", "$TOP/")} { // the top can have blanks
		words := CommandWords(text)
		for i, word := range words {
			file := strings.ContainsAny(word, "./*?[")
			if i == 0 && !file && strings.HasPrefix(text, word) || strings.HasPrefix(word, "--") {
				continue
			}
			if strings.HasPrefix(word, "-") { // -Itools
				word = word[min(2, len(word)):]
			}
			c.word(word, file || i > 0 && words[i-1] == "-m", key)
		}
	}
}

// word adds a word of a command; file is whether it looks like the path of a file or a module.
func (c *configuration) word(word string, file bool, key string) {
	if rest := strings.TrimLeft(word, "*"); strings.HasPrefix(rest, "/") && rest != word { // $PWD/x
		word = rest[1:]
	}
	if !strings.ContainsFunc(word, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) {
		return
	}
	at := word
	if glob := strings.IndexAny(word, "*?["); glob >= 0 {
		at = word[:strings.LastIndexByte(word[:glob], '/')+1]
	}
	c.add(expand(at, c.top), key)
	if !file || strings.HasPrefix(word, "/") || strings.HasPrefix(word, "~") {
		return
	}
	names := []string{path.Clean(word)}
	if !strings.Contains(word, "/") { // tools.x is tools/x.py, once tools/__init__.py ran
		module, _, _ := strings.Cut(word, ".")
		c.add(filepath.Join(c.top, module), key)
		names = append(names, path.Clean(strings.ReplaceAll(word, ".", "/")))
	}
	for _, name := range names {
		for strings.HasPrefix(name, "../") {
			name = name[len("../"):]
		}
		c.found = append(c.found, Configured{Path: strings.TrimPrefix(name, "/"), Anywhere: true, Setting: key})
	}
}

var (
	openVariable = pattern.Lazy(`\$\{\w*[-+:?=]*`)
	variable     = pattern.Lazy(`\$\w*`)
	punctuation  = strings.NewReplacer("'", "", `"`, "", `\`, "", "{", "* ", "}", " *", ")", " *", "`", " *")
)

// CommandWords returns the words of a command, split wherever a shell might split them, without quotes and with a *
// for what a shell puts in: ${X:-a}/b is *, a and */b. Words of a path are split in the same way, so that they are
// found among those of a command that quotes it.
func CommandWords(text string) []string {
	text = variable().ReplaceAllString(openVariable().ReplaceAllString(text, "* "), "*")
	return strings.FieldsFunc(punctuation.Replace(text), func(r rune) bool {
		return unicode.IsSpace(r) || strings.ContainsRune(";|&(<>=,:!", r)
	})
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
func (c *configuration) add(path, key string) {
	real, err := filepath.EvalSymlinks(path)
	if err != nil {
		real = path // it is not there yet
	}
	for _, at := range slices.Compact([]string{path, real}) {
		rel, err := filepath.Rel(c.top, at)
		if err == nil && rel != "." && filepath.IsLocal(rel) {
			c.found = append(c.found, Configured{Path: filepath.ToSlash(rel), Setting: key})
		}
	}
}
