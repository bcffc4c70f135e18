package acp

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"holon/responses"
)

// Bounds of what is shown of one tool call or change.
const (
	maxTitle  = 200       // bytes
	maxOutput = 64 << 10  // bytes of the output of a tool
	maxDiffs  = 200       // places of files
	maxDiff   = 512 << 10 // bytes of all of them
)

// toolKinds are those of the container's tools. All others are other.
var toolKinds = map[string]string{"ExecCommand": "execute", "ExecCommandBatch": "execute", "TaskOutput": "execute",
	"TaskInput": "execute", "TaskStop": "execute", "ApplyPatch": "edit", "ViewImage": "read", "TaskList": "read",
	"TaskStatus": "read"}

// arguments are those of the tools that are shown by more than their name.
type arguments struct {
	Cmd   string `json:"cmd"`
	Items []struct {
		Cmd string `json:"cmd"`
	} `json:"items"`
	TaskID string `json:"task_id"`
	Patch  string `json:"patch"`
	Path   string `json:"path"`
	Todo   []struct {
		Text  string `json:"text"`
		State string `json:"state"`
	} `json:"todo_list"`
}

// toolCall shows a call that begins, or the end of one.
func (s *session) toolCall(call *responses.ToolCall, done bool) error {
	var args arguments
	_ = json.Unmarshal([]byte(call.Arguments), &args) // models make mistakes; the call is shown all the same
	if !done {
		if err := s.plan(args); err != nil {
			return err
		}
		return s.send(s.begun(call, args))
	}
	u := update{Kind: updateToolDone, ToolCallID: call.ID, Status: statusCompleted}
	if len(call.Result) <= maxOutput {
		u.RawOutput = validJSON(call.Result)
	}
	var result struct {
		Status string `json:"status"`
	}
	if json.Unmarshal(call.Result, &result) != nil || result.Status != "success" {
		u.Status = statusFailed
	}
	if edits := editsOf(args.Patch); call.Name == "ApplyPatch" && u.Status == statusCompleted {
		u.Content = s.diffs(s.cwd, edits)
	} else if call.Output != "" {
		u.Content = []toolContent{textContent(fenced(cut(call.Output, maxOutput)))}
	}
	return s.send(u)
}

// begun is a call that begins.
func (s *session) begun(call *responses.ToolCall, args arguments) update {
	u := update{Kind: updateToolCall, ToolCallID: call.ID, Title: call.Name, ToolKind: "other", Status: statusInProgress,
		RawInput: validJSON([]byte(call.Arguments))}
	if kind := toolKinds[call.Name]; kind != "" {
		u.ToolKind = kind
	}
	switch {
	case call.Name == "ExecCommand" && args.Cmd != "":
		u.Title = args.Cmd
	case call.Name == "ExecCommandBatch" && len(args.Items) > 0:
		u.Title = fmt.Sprintf("%d commands: %s", len(args.Items), args.Items[0].Cmd)
	case call.Name == "ViewImage" && args.Path != "":
		u.Title = "View " + args.Path
		u.Locations = s.locations(s.cwd, args.Path)
	case call.Name == "ApplyPatch":
		names := pathsOf(editsOf(args.Patch))
		u.Title = "Edit " + strings.Join(names, ", ")
		u.Locations = s.locations(s.cwd, names...)
	case args.TaskID != "":
		u.Title += " " + args.TaskID
	}
	first, _, _ := strings.Cut(u.Title, "\n")
	u.Title = cut(strings.ToValidUTF8(first, "?"), maxTitle)
	return u
}

// plan shows the checklist of a work item that a call writes. The states are those of a plan.
func (s *session) plan(args arguments) error {
	u := update{Kind: updatePlan}
	for _, t := range args.Todo {
		u.Entries = append(u.Entries, planEntry{Content: t.Text, Priority: "medium", Status: t.State})
	}
	if u.Entries == nil {
		return nil
	}
	return s.send(u)
}

// locations are the files of the editor that paths name, which are relative to dir.
func (s *session) locations(dir string, paths ...string) (at []location) {
	for _, path := range paths {
		if host, ok := s.hostPath(dir, path); ok {
			at = append(at, location{Path: host})
		}
	}
	return at
}

// treePath is where a container has the private tree of its session.
const treePath = "/holon/workspaces/session/"

// hostPath is the file of the editor that a path names, which may be relative to dir. Others are only the container's.
func (s *session) hostPath(dir, path string) (string, bool) {
	if below, ok := strings.CutPrefix(path, treePath); ok {
		dir, path = s.top, below
	}
	return filepath.Join(dir, path), filepath.IsLocal(path)
}

// diffs show edits, whose paths are relative to dir.
func (s *session) diffs(dir string, edits []edit) (shown []toolContent) {
	size := 0
	for i, e := range edits {
		path, ok := s.hostPath(dir, e.path)
		size += len(e.old) + len(e.new)
		if i == maxDiffs || size > maxDiff {
			return append(shown, textContent(fmt.Sprintf("…and %d more changes", len(edits)-i)))
		}
		if !ok {
			continue
		}
		d := &fileDiff{Path: path, Old: &e.old, New: e.new}
		if e.added {
			d.Old = nil
		}
		shown = append(shown, toolContent{Type: "diff", fileDiff: d})
	}
	return shown
}

// pathsOf are the paths of edits, each once.
func pathsOf(edits []edit) (paths []string) {
	for _, e := range edits {
		if n := len(paths); n == 0 || paths[n-1] != e.path {
			paths = append(paths, e.path)
		}
	}
	return paths
}

// validJSON is JSON as it is, and anything else as a text.
func validJSON(data []byte) json.RawMessage {
	if len(data) == 0 || json.Valid(data) {
		return data
	}
	text, _ := json.Marshal(string(data)) // any string can be encoded
	return text
}

// fenced makes a block of Markdown that nothing in text ends.
func fenced(text string) string {
	fence := "```"
	for strings.Contains(text, fence) {
		fence += "`"
	}
	return fence + "\n" + strings.TrimSuffix(text, "\n") + "\n" + fence
}

// cut shortens text to so many bytes, and says that it did.
func cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	for most > 0 && !utf8.RuneStart(text[most]) {
		most--
	}
	return text[:most] + "…"
}
