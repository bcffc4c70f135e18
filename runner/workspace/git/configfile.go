package git

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
)

// coreSettings are the settings that say where a repository's working tree is.
type coreSettings struct {
	worktree string
	bare     bool
}

// readCore reads the configuration files of a git directory as data: no include is followed, and what they
// say is compared, not obeyed. With a sparse checkout git keeps these settings in the second file.
func readCore(gitDir string) (coreSettings, error) {
	values := settings{}
	for _, name := range []string{"config", "config.worktree"} {
		if err := values.addFile(gitDir, name); err != nil {
			return coreSettings{}, unreadable(filepath.Join(gitDir, name), err)
		}
	}
	return coreSettings{worktree: values["core.worktree"], bare: isTrue(values["core.bare"])}, nil
}

var (
	configSection = regexp.MustCompile(`^\[([A-Za-z0-9.-]+)([ \t]+"([^"\\\n]|\\[^\n])*")?\]`)
	configKey     = regexp.MustCompile(`^([A-Za-z][A-Za-z0-9-]*)[ \t]*(=|\n|$)`)
)

// parseConfig reads the text of a configuration file as git does and calls set with each setting outside of a
// subsection, in order: the key as "section.key" in lower case, "true" for a key without a value.
func parseConfig(text string, set func(key, value string)) (err error) {
	section := "" // none, or one with a subsection
	for rest := strings.ReplaceAll(text, "\r\n", "\n"); ; {
		rest = strings.TrimLeft(rest, " \t\n")
		if rest == "" {
			return nil
		}
		if rest[0] == '#' || rest[0] == ';' {
			_, rest, _ = strings.Cut(rest, "\n")
			continue
		}
		if m := configSection.FindStringSubmatch(rest); m != nil {
			section, rest = m[1], rest[len(m[0]):]
			if m[2] != "" || strings.Contains(section, ".") {
				section = ""
			}
			continue
		}
		m := configKey.FindStringSubmatch(rest)
		if m == nil {
			return fmt.Errorf("%.40q is not a setting", rest)
		}
		value := "true"
		if rest = rest[len(m[0]):]; m[2] == "=" {
			if value, rest, err = parseConfigValue(rest); err != nil {
				return err
			}
		}
		if section != "" {
			set(strings.ToLower(section+"."+m[1]), value)
		}
	}
}

// parseConfigValue takes what follows a "=" and returns the text after the line, or lines, of the value.
func parseConfigValue(text string) (value, rest string, err error) {
	var b strings.Builder
	quoted, end := false, 0 // spaces after end are not part of the value
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case c == '"':
			quoted = !quoted
			continue
		case quoted && c == '\n':
			return "", "", errors.New("a quoted value does not end")
		case !quoted && (c == '\n' || c == '#' || c == ';'):
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:end], rest, nil
		case !quoted && (c == ' ' || c == '\t'):
			if end > 0 {
				b.WriteByte(c)
			}
			continue
		case c == '\\':
			if i++; i < len(text) && text[i] == '\n' {
				continue
			}
			at := -1
			if i < len(text) {
				at = strings.IndexByte(`ntb\"`, text[i])
			}
			if at < 0 {
				return "", "", errors.New("a value has an unknown escape")
			}
			c = "\n\t\b\\\""[at]
		}
		b.WriteByte(c)
		end = b.Len()
	}
	if quoted {
		return "", "", errors.New("a quoted value does not end")
	}
	return b.String()[:end], "", nil
}
