package skills

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"holon/internal/pattern"
	"holon/internal/visible"

	"go.yaml.in/yaml/v3"
)

const (
	maxFrontMatter = 64 << 10 // bytes
	maxName        = 64       // bytes
	maxDescription = 1024     // characters
)

// frontMatter is the front matter of a SKILL.md. Other keys are allowed and ignored.
type frontMatter struct {
	Name        string
	Description string // white space made single spaces
}

var namePattern = pattern.Lazy(`^[a-zA-Z0-9][a-zA-Z0-9_.-]*$`)

func validName(name string) bool { return len(name) <= maxName && namePattern().MatchString(name) }

// parse reads the front matter that text begins with: YAML between two lines of three dashes. The body that follows is
// not looked at. path is how the file is called in problems.
func parse(text []byte, path string) (frontMatter, *InvalidSkill) {
	yamlText, problem := split(text)
	if problem == nil {
		var front frontMatter
		if front, problem = decode(yamlText); problem == nil {
			return front, nil
		}
	}
	problem.Path = path
	return frontMatter{}, problem
}

// split returns what lies between the first line and the next, which both must
// be "---".
func split(text []byte) ([]byte, *InvalidSkill) {
	text = bytes.TrimLeft(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf")), " \t\r\n") // a byte order mark, and blank lines
	first, rest, found := bytes.Cut(text, []byte("\n"))
	if !isFence(first) || !found {
		return nil, &InvalidSkill{Code: codeFrontMatter, Message: "the file does not begin with front matter",
			Hint: "begin it with a line ---, name, description and another line ---"}
	}
	for at := 0; at < len(rest) && at <= maxFrontMatter; {
		line, _, more := bytes.Cut(rest[at:], []byte("\n"))
		if isFence(line) {
			return rest[:at], nil
		}
		if !more {
			break
		}
		at += len(line) + 1
	}
	if len(text) > maxFrontMatter {
		return nil, &InvalidSkill{Code: codeTooLarge,
			Message: fmt.Sprintf("the front matter has more than %d bytes", maxFrontMatter),
			Hint:    "move text to the body, below the second line ---"}
	}
	return nil, &InvalidSkill{Code: codeFrontMatter, Message: "the front matter has no end",
		Hint: "close it with a line ---"}
}

func isFence(line []byte) bool { return string(bytes.TrimRight(line, " \t\r")) == "---" }

// decode reads the two keys we need. Decoding them into texts would name Go types in its errors.
func decode(text []byte) (frontMatter, *InvalidSkill) {
	var document yaml.Node
	err := yaml.Unmarshal(text, &document)
	if err != nil && yaml.Unmarshal(quoted(text), &document) != nil {
		// yaml counts lines from the text's first; the file has a fence above.
		return frontMatter{}, &InvalidSkill{Code: codeFrontMatter,
			Message: "the front matter is not YAML (lines are counted below the first ---)",
			Hint:    "quote values that hold a colon", Err: errors.New(oneLine(err.Error()))}
	}
	keys := make(map[string]yaml.Node)
	if err := document.Decode(keys); err != nil && !document.IsZero() {
		return frontMatter{}, &InvalidSkill{Code: codeFrontMatter, Field: "name",
			Message: "the front matter does not consist of keys that are there once",
			Hint:    "write name: and description:", Err: errors.New(oneLine(err.Error()))}
	}
	name, problem := field(keys, "name")
	if problem != nil {
		return frontMatter{}, problem
	}
	if !validName(name) {
		return frontMatter{}, &InvalidSkill{Code: codeFrontMatter, Field: "name",
			Message: fmt.Sprintf("%.80q is not the name of a skill", name),
			Hint:    fmt.Sprintf("use at most %d letters, digits, '-', '_' or '.'", maxName)}
	}
	description, problem := field(keys, "description")
	if problem != nil {
		return frontMatter{}, problem
	}
	description = oneLine(description)
	if utf8.RuneCountInString(description) > maxDescription {
		return frontMatter{}, &InvalidSkill{Code: codeFrontMatter, Field: "description",
			Message: fmt.Sprintf("it has more than %d characters", maxDescription),
			Hint:    "say in a sentence what the skill is for and when to use it"}
	}
	return frontMatter{Name: name, Description: description}, nil
}

// plainValue matches a key at the top whose value is a text on the same line, without quotes.
var plainValue = pattern.Lazy(`(?m)^([A-Za-z_-]+):[ \t]+([^\s"'|>\[{&*!#].*?)[ \t\r]*$`)

// quoted returns text with such values in quotes: many authors write a colon in a description.
func quoted(text []byte) []byte {
	return plainValue().ReplaceAllFunc(text, func(line []byte) []byte {
		m := plainValue().FindSubmatch(line)
		return fmt.Appendf(nil, "%s: '%s'", m[1], bytes.ReplaceAll(m[2], []byte("'"), []byte("''")))
	})
}

// field returns the text of one key, which must be there and not empty.
func field(keys map[string]yaml.Node, key string) (string, *InvalidSkill) {
	value, ok := keys[key]
	if !ok {
		return "", &InvalidSkill{Code: codeFrontMatter, Field: key, Message: "it is missing",
			Hint: "add a line " + key + ": …"}
	}
	if value.Kind != yaml.ScalarNode {
		return "", &InvalidSkill{Code: codeFrontMatter, Field: key, Message: "it is not a text",
			Hint: "write one text, in quotes if need be"}
	}
	if value.Tag == "!!null" || oneLine(value.Value) == "" {
		return "", &InvalidSkill{Code: codeFrontMatter, Field: key, Message: "it is empty", Hint: "write a text"}
	}
	return value.Value, nil
}

// oneLine makes s one line that a prompt or a terminal can show: white space
// becomes single spaces, and what can't be seen is left out.
func oneLine(s string) string {
	return strings.Join(strings.Fields(visible.Text(strings.ToValidUTF8(s, ""))), " ")
}
