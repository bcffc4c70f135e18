package workspace

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// settings are values of git configuration files, the last of each key. Keys
// are "section.key" in lower case; there are none with a subsection.
type settings map[string]string

// takenOver are the settings of the user's that git gets to know: how files are
// compared and converted. None names a program, a file or a URL.
var takenOver = []string{
	"core.autocrlf", "core.checkroundtripencoding", "core.checkstat", "core.eol", "core.filemode", "core.ignorecase",
	"core.precomposeunicode", "core.sparsecheckout", "core.sparsecheckoutcone", "core.symlinks", "core.trustctime",
}

// knownExtensions are those of a repository's format that need nothing of us,
// or that we know.
var knownExtensions = []string{"noop", "noop-v1", "objectformat", "partialclone", "preciousobjects",
	"relativeworktrees", "worktreeconfig"}

// loadSettings reads what counts of the user's and the repository's
// configuration files, and what lies next to them. Includes are not followed
// and system-wide files are not read.
func (u *userRepository) loadSettings() error {
	global, err := globalSettings()
	if err != nil {
		return u.broken("configuration", err)
	}
	local := settings{}
	err = local.addFile(u.commonDir, "config")
	if err == nil && isTrue(local["extensions.worktreeconfig"]) {
		err = local.addFile(u.gitDir, "config.worktree")
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
	u.userName, u.userEmail, u.shared = global["user.name"], global["user.email"], local["core.sharedrepository"]
	var own strings.Builder
	for _, key := range takenOver {
		if value, set := global[key]; set {
			own.WriteString("\t" + strings.TrimPrefix(key, "core.") + " = " + configValue(value) + "\n")
		}
	}
	u.settings = own.String()
	return u.loadInfo(excludes)
}

// loadInfo reads what lies next to the configuration. The excludes file is the
// one that the user's configuration names; a repository names none.
func (u *userRepository) loadInfo(excludes string) (err error) {
	own, err := readIn(u.commonDir, "info/exclude")
	if err == nil {
		u.attributes, err = readIn(u.commonDir, "info/attributes")
	}
	if err == nil {
		u.sparse, err = readIn(u.gitDir, "info/sparse-checkout")
	}
	if err == nil {
		u.shallow, err = readIn(u.commonDir, "shallow")
	}
	if err != nil {
		return u.broken("configuration", err)
	}
	for line := range strings.Lines(u.shallow) {
		if !objectID.MatchString(strings.TrimSuffix(line, "\n")) {
			return u.broken("shallow file", fmt.Errorf("it has the line %.100q", line))
		}
	}
	if own != "" {
		own = strings.TrimSuffix(own, "\n") + "\n"
	}
	u.excludes = readSmall(excludes) + own
	return nil
}

// loadFormat refuses formats that are read differently from what we know.
func (u *userRepository) loadFormat(local settings) error {
	u.format = formatSHA1
	if name := local["extensions.objectformat"]; name != "" {
		u.format = objectFormat(strings.ToLower(name))
	}
	version := local["core.repositoryformatversion"]
	unknown := version != "" && version != "0" && version != "1" || u.format != formatSHA1 && u.format != formatSHA256
	for key, value := range local {
		name, ok := strings.CutPrefix(key, "extensions.")
		known := slices.Contains(knownExtensions, name) || name == "refstorage" && value == "files"
		unknown = unknown || ok && version == "1" && !known
	}
	if unknown {
		return u.broken("format", errors.New("a version or an extension that is not supported"))
	}
	return nil
}

func (u *userRepository) broken(part string, err error) error {
	return &Error{Code: CodeBrokenRepository, Param: u.top,
		Message: "the " + part + " of the repository at " + u.top + " can't be read", Err: err,
		Hint: "`git status` there shows the fault"}
}

// globalSettings reads the user's own files, where git looks for them.
func globalSettings() (settings, error) {
	var files []string
	if named, set := os.LookupEnv("GIT_CONFIG_GLOBAL"); set {
		files = []string{named}
	} else {
		if dir, err := os.UserConfigDir(); err == nil {
			files = append(files, filepath.Join(dir, "git", "config"))
		}
		if home, err := os.UserHomeDir(); err == nil {
			files = append(files, filepath.Join(home, ".gitconfig"))
		}
	}
	all := settings{}
	for _, file := range files {
		if err := all.add(readSmall(file)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// excludesFile returns the path of the user's global ignore file.
func excludesFile(value string) string {
	if home, err := os.UserHomeDir(); err == nil && strings.HasPrefix(value, "~/") {
		value = filepath.Join(home, value[2:])
	}
	if dir, err := os.UserConfigDir(); value == "" && err == nil {
		value = filepath.Join(dir, "git", "ignore")
	}
	if !filepath.IsAbs(value) {
		return ""
	}
	return value
}

func (s settings) addFile(dir, path string) error {
	text, err := readIn(dir, path)
	if err != nil {
		return err
	}
	return s.add(text)
}

// add reads a file's text.
func (s settings) add(text string) error {
	return parseConfig(strings.TrimPrefix(text, "\ufeff"), func(key, value string) {
		if value != "" {
			s[key] = value
		}
	})
}

func isTrue(value string) bool {
	return slices.Contains([]string{"true", "yes", "on", "1"}, strings.ToLower(value))
}

// readIn returns a small file of a directory that somebody else may have
// prepared, "" when there is none: no link is followed in its path.
func readIn(dir, path string) (string, error) {
	file, err := openIn(dir, path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	defer file.Close()
	data, err := io.ReadAll(io.LimitReader(file, maxSmallFile+1))
	if len(data) > maxSmallFile {
		return "", fmt.Errorf("%s has more than %d bytes", path, maxSmallFile)
	}
	return string(data), err
}

// openIn opens a regular file beneath dir without following a link.
func openIn(dir, path string) (*os.File, error) {
	root, err := openFolder(dir)
	if err != nil {
		return nil, err
	}
	defer root.close()
	at := newCursor(root, false)
	defer at.close()
	parent, name, err := at.parent(path)
	if err != nil {
		return nil, err
	}
	file, _, err := parent.file(name)
	return file, err
}
