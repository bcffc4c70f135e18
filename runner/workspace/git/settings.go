package git

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/internal/visible"
)

// settings are values of git configuration files, the last of each key. Keys
// are "section.key" in lower case; there are none with a subsection.
type settings map[string]string

// takenOver are the user's settings that git gets: how files are compared and converted. None names a
// program, a file or a URL.
var takenOver = []string{
	"core.autocrlf", "core.checkroundtripencoding", "core.checkstat", "core.eol", "core.filemode", "core.ignorecase",
	"core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks", "core.trustctime",
}

// knownExtensions are the extensions of a repository's format that we support or that need no support.
var knownExtensions = []string{"noop", "noop-v1", "objectformat", "partialclone", "preciousobjects",
	"relativeworktrees", "worktreeconfig"}

// loadSettings reads the relevant part of the user's and the repository's configuration files, and the files next to
// them. Includes are not followed and system-wide files are not read.
func (u *UserRepository) loadSettings() error {
	global, err := globalSettings()
	if err != nil {
		return u.broken("configuration", err)
	}
	local := settings{}
	err = local.addFile(u.CommonDir, "config")
	if err == nil && isTrue(local["extensions.worktreeconfig"]) {
		err = local.addFile(u.GitDir, "config.worktree")
	}
	if err != nil {
		return u.broken("configuration", err)
	}
	if err := u.loadFormat(local); err != nil {
		return err
	}
	excludes := excludesFile(global["core.excludesfile"])
	for key, value := range local {
		global[key] = value
	}
	u.UserName, u.UserEmail, u.shared = global["user.name"], global["user.email"], local["core.sharedrepository"]
	var own strings.Builder
	for _, key := range takenOver {
		if value, set := global[key]; set {
			own.WriteString("\t" + strings.TrimPrefix(key, "core.") + " = " + QuoteConfig(value) + "\n")
		}
	}
	u.settings = own.String()
	return u.loadInfo(excludes)
}

// loadInfo reads the files next to the configuration. excludes is the file that the user's configuration names; a
// repository can't name one.
func (u *UserRepository) loadInfo(excludes string) (err error) {
	own, err := ReadIn(u.CommonDir, "info/exclude")
	if err == nil {
		u.attributes, err = ReadIn(u.CommonDir, "info/attributes")
	}
	if err == nil {
		u.sparse, err = ReadIn(u.GitDir, "info/sparse-checkout")
	}
	if err == nil {
		u.Shallow, err = ReadIn(u.CommonDir, "shallow")
	}
	if err != nil {
		return u.broken("configuration", err)
	}
	for line := range strings.Lines(u.Shallow) {
		if !ObjectID().MatchString(strings.TrimSuffix(line, "\n")) {
			return u.broken("shallow file", fmt.Errorf("it has the line %.100q", line))
		}
	}
	if own != "" {
		own = strings.TrimSuffix(own, "\n") + "\n"
	}
	u.Excludes = ReadSmall(excludes) + own
	return nil
}

// loadFormat refuses versions and extensions of the format that are not supported.
func (u *UserRepository) loadFormat(local settings) error {
	u.Format = SHA1
	if name := local["extensions.objectformat"]; name != "" {
		u.Format = ObjectFormat(strings.ToLower(name))
	}
	version := local["core.repositoryformatversion"]
	if version != "" && version != "0" && version != "1" {
		return u.unsupported("repositoryformatversion", version)
	}
	if u.Format != SHA1 && u.Format != SHA256 {
		return u.unsupported("objectformat", string(u.Format))
	}
	for _, key := range slices.Sorted(maps.Keys(local)) {
		name, ok := strings.CutPrefix(key, "extensions.")
		known := slices.Contains(knownExtensions, name) || name == "refstorage" && local[key] == "files"
		if ok && version == "1" && !known {
			return u.unsupported(name, local[key])
		}
	}
	return nil
}

// unsupported is the error of a repository whose format has an extension that is not supported.
func (u *UserRepository) unsupported(name, value string) error {
	e := &Error{Code: CodeBrokenRepository, Param: u.Top, Message: fmt.Sprintf(
		"the format of the repository at %s is not supported: it has %s = %s", u.Top, name, visible.OneLine(value, 64)),
		Hint: "name a clone of it"}
	if name == "refstorage" {
		e.Hint = "`git refs migrate --ref-format=files` there brings its references into the format that can be read"
	}
	return e
}

func (u *UserRepository) broken(part string, err error) error {
	return &Error{Code: CodeBrokenRepository, Param: u.Top,
		Message: "the " + part + " of the repository at " + u.Top + " can't be read", Err: err,
		Hint: "`git status` there shows the fault"}
}

// globalFiles are the user's own files, where git looks for them.
func globalFiles() (files []string) {
	if named, set := os.LookupEnv("GIT_CONFIG_GLOBAL"); set {
		return []string{named}
	}
	if dir, err := os.UserConfigDir(); err == nil {
		files = append(files, filepath.Join(dir, "git", "config"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		files = append(files, filepath.Join(home, ".gitconfig"))
	}
	return files
}

// globalSettings reads globalFiles.
func globalSettings() (settings, error) {
	all := settings{}
	for _, file := range globalFiles() {
		if err := all.add(ReadSmall(file)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// excludesFile returns the path of the user's global ignore file.
func excludesFile(value string) string {
	if dir, err := os.UserConfigDir(); value == "" && err == nil {
		value = filepath.Join(dir, "git", "ignore")
	}
	if value = expand(value, ""); filepath.IsAbs(value) {
		return value
	}
	return ""
}

func (s settings) addFile(dir, path string) error {
	text, err := ReadIn(dir, path)
	if err != nil {
		return err
	}
	return s.add(text)
}

// add reads a file's text.
func (s settings) add(text string) error {
	return parseSettings(strings.TrimPrefix(text, "\ufeff"), func(key, value string) {
		if value != "" && strings.Count(key, ".") == 1 {
			s[key] = value
		}
	})
}

func isTrue(value string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(value))
}
