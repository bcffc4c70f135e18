// Package activation notes which skills a session uses.
//
// A skill becomes turn_active when a tool call of the turn that succeeded reads
// its SKILL.md or runs one of its scripts, which is one fact in the turn's
// record each; a turn that completes makes its skills session_active, which the
// session's later turns are told; and what an earlier process left is restored
// (runtime specification, "Skill Discovery And Activation Contract").
//
// The invariant: the same calls give the same facts, and only discovered skills
// are ever noted. The package promises nothing about what a command did with
// what it read.
package activation

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"holon/agentd/tools"
	"holon/responses"
	"holon/responses/turns"
	"holon/skills"
)

// Sources and states of an activation (runtime specification).
const (
	sourceCatalog = "implicit_from_catalog" // the agent chose it from the catalogue
	turnActive    = "turn_active"
	sessionActive = "session_active"
	restored      = "restored"
)

// maxFacts bounds the facts of one turn about skills.
const maxFacts = 256

// Watch sees the tool calls of one turn. It belongs to one goroutine.
type Watch struct {
	catalog skills.Catalog
	scope   turns.Scope
	home    string
	seen    map[string]bool
	active  []skills.Skill
}

// NewWatch returns a watch for a turn that may use the skills of catalog, and whose commands have the given home
// directory.
func NewWatch(catalog skills.Catalog, scope turns.Scope, home string) *Watch {
	return &Watch{catalog: catalog, scope: scope, home: home, seen: make(map[string]bool)}
}

// ToolEnded returns the facts that follow from a tool call that began in workDir and ended.
func (w *Watch) ToolEnded(call *responses.ToolCall, outcome tools.Outcome, workDir string) []turns.RuntimeEvent {
	var events []turns.RuntimeEvent
	for _, c := range succeeded(call, outcome) {
		dir := c.Workdir
		if !filepath.IsAbs(dir) {
			dir = filepath.Join(workDir, dir)
		}
		for _, a := range w.catalog.Activated(c.Cmd, dir, w.home) {
			if w.seen[a.Path] || len(w.seen) == maxFacts {
				continue
			}
			w.seen[a.Path] = true
			w.note(a.Skill)
			events = append(events, w.scope.OfCall(turns.SkillActivated, call.ID, turns.Skill{
				SkillID: a.Skill.ID(), Name: a.Skill.Name, Scope: string(a.Skill.Scope), LoadReason: string(a.Reason),
				Path:           a.Path,
				EntrypointPath: a.Skill.Path, ActivationSource: sourceCatalog, ActivationState: turnActive,
				Digest: fileDigest(a.Skill.Path),
			}))
		}
	}
	return events
}

// Active returns the skills that the turn used, in the order of their first use.
func (w *Watch) Active() []skills.Skill { return w.active }

func (w *Watch) note(skill skills.Skill) {
	for _, known := range w.active {
		if known.Path == skill.Path {
			return
		}
	}
	w.active = append(w.active, skill)
}

// command is what the tools that run commands are asked for.
type command struct {
	Cmd     string `json:"cmd"`
	Workdir string `json:"workdir"`
}

// succeeded returns the commands of a call that ran and ended well. A command
// that still runs as a task has not ended.
func succeeded(call *responses.ToolCall, outcome tools.Outcome) []command {
	if outcome.Canonical.Error != nil {
		return nil
	}
	type result struct {
		ExitStatus *int `json:"exit_status"`
	}
	well := func(r result) bool { return r.ExitStatus != nil && *r.ExitStatus == 0 }
	switch call.Name {
	case "ExecCommand":
		var args command
		var got result
		if decode(call.Arguments, &args) && decode(string(outcome.Canonical.Result), &got) && well(got) {
			return []command{args}
		}
	case "ExecCommandBatch":
		var args struct {
			Items []command `json:"items"`
		}
		var got struct {
			Items []struct {
				Index  int    `json:"index"`
				Result result `json:"result"`
			} `json:"items"`
		}
		if !decode(call.Arguments, &args) || !decode(string(outcome.Canonical.Result), &got) {
			return nil
		}
		var list []command
		for _, item := range got.Items {
			if well(item.Result) && item.Index >= 0 && item.Index < len(args.Items) {
				list = append(list, args.Items[item.Index])
			}
		}
		return list
	}
	return nil
}

func decode(text string, v any) bool { return json.Unmarshal([]byte(text), v) == nil }

// fileDigest returns the digest of a SKILL.md as it is now, "" when it is not
// there any more or larger than a SKILL.md should be.
func fileDigest(path string) string {
	const most = 1 << 20
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer f.Close()
	sum := sha256.New()
	if n, err := io.Copy(sum, io.LimitReader(f, most+1)); err != nil || n > most {
		return ""
	}
	return "sha256:" + hex.EncodeToString(sum.Sum(nil))
}
