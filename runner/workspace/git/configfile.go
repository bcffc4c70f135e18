package git

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"holon/internal/pattern"
)

// readCore reads the configuration files of a git directory as data, for the settings that say where its working tree
// is: no include is followed, and what they say is compared, not obeyed. With a sparse checkout git keeps these
// settings in the second file.
func readCore(gitDir string) (worktree string, bare bool, err error) {
	values := settings{}
	for _, name := range []string{"config", "config.worktree"} {
		if err := values.addFile(gitDir, name); err != nil {
			return "", false, unreadable(filepath.Join(gitDir, name), err)
		}
	}
	return values["core.worktree"], isTrue(values["core.bare"]), nil
}

var (
	configSection = pattern.Lazy(`^\[([A-Za-z0-9.-]+)([ \t]+"([^"\\\n]|\\[^\n])*")?\]`)
	configKey     = pattern.Lazy(`^([A-Za-z][A-Za-z0-9-]*)[ \t]*(=|\n|$)`)
)

// parseSettings reads the text of a configuration file as git does and calls set with each setting, in order: the key
// as "section.key" or "section.subsection.key", in lower case but for the subsection, "true" for a key without a value.
// The reader of go-git refuses files that git accepts, such as one with "[core] bare" in a line, and reads continued
// lines differently, so that a repository could hide a setting from us.
func parseSettings(text string, set func(key, value string)) (err error) {
	section := ""
	for rest := strings.ReplaceAll(text, "\r\n", "\n"); ; {
		rest = strings.TrimLeft(rest, " \t\n")
		if rest == "" {
			return nil
		}
		if rest[0] == '#' || rest[0] == ';' {
			_, rest, _ = strings.Cut(rest, "\n")
			continue
		}
		if m := configSection().FindStringSubmatch(rest); m != nil {
			section, rest = strings.ToLower(m[1]), rest[len(m[0]):]
			if m[2] != "" {
				section += "." + strings.ReplaceAll(strings.Trim(m[2], " \t\""), `\`, "")
			}
			continue
		}
		m := configKey().FindStringSubmatch(rest)
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
			set(section+"."+strings.ToLower(m[1]), value)
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
		case c == '\\':
			if i++; strings.HasPrefix(text[i:], "\n") {
				continue
			}
			if c, err = unescape(text[i:]); err != nil {
				return "", "", err
			}
		case quoted && c == '\n':
			return "", "", errUnended
		case !quoted && strings.IndexByte("\n#;", c) >= 0:
			_, rest, _ = strings.Cut(text[i:], "\n")
			return b.String()[:end], rest, nil
		case !quoted && (c == ' ' || c == '\t'):
			if end > 0 {
				b.WriteByte(c)
			}
			continue
		}
		b.WriteByte(c)
		end = b.Len()
	}
	if quoted {
		return "", "", errUnended
	}
	return b.String()[:end], "", nil
}

var errUnended = errors.New("a quoted value does not end")

// unescape returns the character that a backslash before the text stands for.
func unescape(text string) (byte, error) {
	if text != "" {
		if at := strings.IndexByte(`ntb\"`, text[0]); at >= 0 {
			return "\n\t\b\\\""[at], nil
		}
	}
	return 0, errors.New("a value has an unknown escape")
}
