package settings

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gofrs/flock"
	"go.yaml.in/yaml/v3"

	"holon/internal/durable"
	"holon/state"
)

// codeFileUnusable is the code of errors about a file that cannot be changed.
const codeFileUnusable state.Code = "settings_unusable"

// Set changes one key of the person's file at path and creates the file if it is absent. It does not change
// an invalid file or write an invalid value, which is also one that a check refuses: checks see the defaults with the
// value. Errors are *state.Error values, or those of checks.
func Set(path, text, value string, checks ...func(*Settings) error) error {
	segments := split(text)
	k, name, found := lookup(segments)
	if found == matchGroup {
		if perhaps := strings.Split(text, "."); len(perhaps) > 2 { // a key of a provider, misspelt
			return unknownKey(text, perhaps, matchNone)
		}
		return &state.Error{Code: CodeUnknownKey, Param: "KEY",
			Message: fmt.Sprintf("%.100q is a group of settings", text),
			Hint:    "name one of them; see holon config schema"}
	}
	if found != matchKey {
		return unknownKey(text, segments, found)
	}
	n, err := k.parseText(value)
	if err != nil {
		return &state.Error{Code: CodeInvalid, Param: "VALUE", Message: err.Error(), Hint: "correct it"}
	}
	probe := Default()
	if what, remedy := k.assign(&probe, name, n); what != "" {
		return &state.Error{Code: CodeInvalid, Param: "VALUE", Message: what, Hint: remedy}
	}
	for _, check := range checks {
		if err := check(&probe); err != nil {
			return err
		}
	}
	data, err := json.Marshal(k.value(&probe, name))
	if err != nil {
		return fmt.Errorf("write the value: %w", err)
	}
	return change(path, func(root *yaml.Node) (bool, error) {
		value, err := parseJSON([]byte(`{"v":` + string(data) + `}`))
		if err != nil {
			return false, fmt.Errorf("write the value: %w", err)
		}
		put(root, segments, get(value, "v"))
		return true, nil
	})
}

// Unset removes a key, or all keys of a group, from the person's file. removed says whether one was set.
func Unset(path, text string) (removed bool, err error) {
	segments := split(text)
	if _, _, found := lookup(segments); found != matchKey && found != matchGroup {
		return false, unknownKey(text, segments, found)
	}
	err = change(path, func(root *yaml.Node) (bool, error) {
		removed = remove(root, segments)
		return removed, nil
	})
	return removed, err
}

// change edits the file while it holds the lock that all writers take.
func change(path string, edit func(root *yaml.Node) (changed bool, err error)) (err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fileError(path, err)
	}
	lock := flock.New(path+".lock", flock.SetPermissions(0o600))
	if err := lock.Lock(); err != nil {
		return fileError(path, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	root, err := current(path)
	if err != nil {
		return err
	}
	if changed, err := edit(root); err != nil || !changed {
		return err
	}
	var b bytes.Buffer
	write(&b, root, "")
	b.WriteByte('\n')
	if b.Len() > maxFile {
		return fileError(path, fmt.Errorf("it would be larger than %d KiB", maxFile>>10))
	}
	if err := durable.WriteFile(path, b.Bytes(), 0o600); err != nil {
		return fileError(path, err)
	}
	return nil
}

func fileError(path string, err error) error {
	return &state.Error{Code: codeFileUnusable, Param: path, Message: "cannot be changed",
		Hint: "make it a file of yours in a directory of yours", Err: err}
}

// current reads the present file. It refuses an invalid one, which would be written back.
func current(path string) (*yaml.Node, error) {
	l := &Loaded{Settings: Default(), origins: make(map[string]Origin)}
	l.user(path)
	if err := l.Err(); err != nil {
		return nil, err
	}
	data, _, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &yaml.Node{Kind: yaml.MappingNode}, nil
	}
	if err != nil {
		return nil, fileError(path, err)
	}
	return parseJSON(data)
}

// put sets the value at a path and creates the objects on the way. A string where an object is needed is the
// short form of model.default.
func put(n *yaml.Node, path []string, value *yaml.Node) {
	if n.Kind != yaml.MappingNode {
		short := *n
		*n = yaml.Node{Kind: yaml.MappingNode, Content: []*yaml.Node{textNode("default"), &short}}
	}
	below := get(n, path[0])
	if below == nil {
		below = &yaml.Node{Kind: yaml.MappingNode}
		n.Content = append(n.Content, textNode(path[0]), below)
	}
	if len(path) == 1 {
		*below = *value
		return
	}
	put(below, path[1:], value)
}

// remove removes the value at a path, and the objects that are empty then.
func remove(n *yaml.Node, path []string) bool {
	below := get(n, path[0])
	if below == nil {
		return false
	}
	short := path[0] == "model" && len(path) == 2 && path[1] == "default" && isText(below)
	if len(path) > 1 && !short {
		if !remove(below, path[1:]) {
			return false
		}
		if len(below.Content) > 0 {
			return true
		}
	}
	i := slices.Index(n.Content, below)
	n.Content = slices.Delete(n.Content, i-1, i+1)
	return true
}

// write writes a value as JSON, with two spaces for each level.
func write(b *bytes.Buffer, n *yaml.Node, indent string) {
	below := indent + "  "
	switch {
	case n.Kind == yaml.SequenceNode:
		b.WriteByte('[')
		for i, item := range n.Content {
			if i > 0 {
				b.WriteString(", ")
			}
			write(b, item, below)
		}
		b.WriteByte(']')
	case n.Kind == yaml.MappingNode:
		b.WriteByte('{')
		for i := 0; i < len(n.Content); i += 2 {
			if i > 0 {
				b.WriteByte(',')
			}
			b.WriteString("\n" + below)
			quote(b, n.Content[i].Value)
			b.WriteString(": ")
			write(b, n.Content[i+1], below)
		}
		if len(n.Content) > 0 {
			b.WriteString("\n" + indent)
		}
		b.WriteByte('}')
	case isText(n):
		quote(b, n.Value)
	default: // null, a truth value or a number
		b.WriteString(n.Value)
	}
}

func quote(b *bytes.Buffer, text string) {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(text)    // a string always has a form
	b.Truncate(b.Len() - 1) // the line end
}

// Path returns the person's file in a home.
func Path(home state.Home) string { return filepath.Join(home.Dir(), UserFile) }

// Tilde shortens a path below the user's home.
func Tilde(path, userHome string) string {
	if rest, ok := strings.CutPrefix(path, userHome+"/"); ok && userHome != "" {
		return "~/" + rest
	}
	return path
}
