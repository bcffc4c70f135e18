// Package activity says for a person what an agent's calls of tools do: the command, the files that are edited and how
// much, or the tool with its arguments. Everything is the model's word, made fit to be printed, and bounded.
package activity

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"holon/internal/pattern"
	"holon/internal/visible"
)

// Bounds of what is said of a call.
const (
	maxText  = 2000 // bytes of Call.Text, and of a command; a terminal shows less
	maxLine  = 200  // bytes of a line of output
	maxValue = 60   // bytes of an argument
	maxFiles = 5    // named in Call.Text
	maxDiff  = 200  // lines of Call.Diff
)

// Call is what a call of a tool does.
type Call struct {
	Text  string   // one line: "$ make test", "edit a.go +2 −1, delete b.go", "ViewImage path: x.png"
	Files []File   // that it edits
	Diff  []string // lines of its patch that add or remove, each with its sign
}

// File is a file that a patch names.
type File struct {
	Path    string `json:"path"`
	From    string `json:"from,omitempty"`    // its name before, of one that is renamed
	Removed bool   `json:"removed,omitempty"` // by its name: Deleted does not count its lines
	Added   int    `json:"added"`
	Deleted int    `json:"deleted"`
}

// Of reads a call from the arguments as the model wrote them, which may be cut off.
func Of(tool, arguments string) Call {
	args := decode(arguments)
	text := func(name string) string { s, _ := args[name].(string); return s }
	switch tool {
	case "ExecCommand":
		if cmd := text("cmd"); cmd != "" {
			return Call{Text: "$ " + visible.OneLine(cmd, maxText)}
		}
	case "ExecCommandBatch":
		if c, ok := batch(args); ok {
			return c
		}
	case "ApplyPatch":
		return edit(text("patch"))
	}
	return Call{Text: visible.OneLine(visible.OneLine(tool, maxValue)+shown(args), maxText)}
}

// decode reads a JSON object, also one whose end is cut off within a string.
func decode(arguments string) map[string]any {
	var args map[string]any
	if json.Unmarshal([]byte(arguments), &args) == nil {
		return args
	}
	cut := strings.TrimSuffix(arguments, "…")
	for range len(`\ud83d\ude0`) + 1 { // an escape may be cut, too
		if json.Unmarshal([]byte(cut+`"}`), &args) == nil || cut == "" {
			return args
		}
		cut = cut[:len(cut)-1]
	}
	return args
}

func batch(args map[string]any) (Call, bool) {
	items, _ := args["items"].([]any)
	var cmds []string
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			cmd, _ := m["cmd"].(string)
			cmds = append(cmds, visible.OneLine(cmd, maxText))
		}
	}
	return Call{Text: visible.OneLine("$ "+strings.Join(cmds, " ; "), maxText)}, len(cmds) > 0
}

// headers name a file in a patch of either form. The file of a deletion has no other name than its old one.
var headers = pattern.Lazy(
	`^(\*\*\* (?:(?:Add|Update|Delete) File|Move to): |\+\+\+ (?:b/)?|--- (?:a/)?)([^\t]+)`,
)

// edit reads a patch: it counts its lines and does not judge it.
func edit(patch string) Call {
	var c Call
	old := ""
	for line := range strings.Lines(patch) {
		line = strings.TrimRight(line, "\r\n")
		if m := headers().FindStringSubmatch(line); m != nil {
			path := visible.Clip(visible.Name(m[2]), 300)
			switch directive := m[1]; {
			case directive[0] == '-':
				old = path
			case directive[0] == '+':
				c.Files = append(c.Files, ofHeaders(old, path))
			case directive != moveTo:
				c.Files = append(c.Files, File{Path: path, Removed: strings.Contains(directive, "Delete")})
			case len(c.Files) > 0:
				at := &c.Files[len(c.Files)-1]
				at.From, at.Path = at.Path, path
			}
			continue
		}
		if len(c.Files) == 0 || line == "" || line[0] != '+' && line[0] != '-' {
			continue
		}
		at := &c.Files[len(c.Files)-1]
		if line[0] == '+' {
			at.Added++
		} else {
			at.Deleted++
		}
		if len(c.Diff) < maxDiff {
			c.Diff = append(c.Diff, visible.OneLine(strings.ReplaceAll(line, "\t", "    "), 300))
		}
	}
	c.Text = summary(c.Files)
	return c
}

// summary is the files of a patch in a line: "edit a.go +2 −1, delete b.go".
func summary(files []File) string {
	var names []string
	for _, f := range files[:min(len(files), maxFiles)] {
		names = append(names, f.String())
	}
	if more := len(files) - maxFiles; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	text := strings.Join(names, ", ")
	if len(files) == 0 || !files[0].Removed {
		text = strings.TrimSpace("edit " + text)
	}
	return text
}

const moveTo = "*** Move to: "

// ofHeaders is the file of the headers of a patch as git and diff write it.
func ofHeaders(old, path string) File {
	switch {
	case path == "/dev/null":
		return File{Path: old}
	case old == "/dev/null" || old == path:
		return File{Path: path}
	}
	return File{Path: path, From: old}
}

// String is "a +2 −1", "a → b +0 −0" or "delete a".
func (f File) String() string {
	if f.Removed {
		return "delete " + f.Path
	}
	name := f.Path
	if f.From != "" {
		name = f.From + " → " + name
	}
	return fmt.Sprintf("%s +%d −%d", name, f.Added, f.Deleted)
}

// shown are arguments by name.
func shown(args map[string]any) string {
	var list []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		value, ok := args[name].(string)
		if !ok {
			data, err := json.Marshal(args[name])
			if err != nil {
				continue // it came from JSON
			}
			value = string(data)
		}
		list = append(list, visible.OneLine(name, maxValue)+": "+visible.OneLine(value, maxValue))
	}
	return strings.TrimRight(" "+strings.Join(list, ", "), " ")
}

// Output is the end of what a command printed, at most n lines of it that say something. canonical is the result of
// its call in the compact form of a fact.
func Output(canonical json.RawMessage, n int) []string {
	var c struct {
		Result struct {
			Stdout string `json:"stdout_preview"`
			Stderr string `json:"stderr_preview"`
		} `json:"result"`
	}
	if json.Unmarshal(canonical, &c) != nil {
		return nil
	}
	return lastLines(c.Result.Stdout+"\n"+c.Result.Stderr, n)
}

// lastLines is the end of a text, at most n lines of it that say something.
func lastLines(text string, n int) (lines []string) {
	for line := range strings.Lines(text) {
		if line = visible.OneLine(line, maxLine); line != "" {
			lines = append(lines, line)
		}
	}
	return lines[max(0, len(lines)-n):]
}
