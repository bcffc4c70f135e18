package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holon/runner/oneshot"
	"holon/runner/settings"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
)

func newShowCommand(streams Streams) *cobra.Command {
	cmd := attemptCommand(streams, "show [RUN]", "Show what became of a run",
		func(ctx context.Context, l *lifecycle) error {
			entry, err := l.run(ctx)
			if err == nil && l.attempt != 0 {
				entry, err = attemptOf(ctx, l.home, entry, l.attempt)
			}
			if err != nil {
				return err
			}
			return l.showRun(ctx, entry)
		})
	cmd.Long = `Show what became of a run, by default the last one: its task, its end, what it
used, how it was isolated, the files that it changed, what to look at before they
are applied, and its answer. With --json
its manifest, or, of a run without an end, what holon ps knows of it.

` + aboutRun
	cmd.Example = "  holon show\n  holon show --json last"
	return cmd
}

func (l *lifecycle) showRun(ctx context.Context, entry *files.Entry) error {
	m := entry.Manifest
	if m == nil {
		return l.showOpen(ctx, entry)
	}
	if l.JSON {
		data, err := m.Encode()
		if err == nil {
			err = printJSON(l.streams, json.RawMessage(data))
		}
		return err
	}
	if err := cmp.Or(l.showManifest(m, entry.OutputDir()), printChanges(l.streams, changes(m)),
		l.showWarnings(m)); err != nil {
		return err
	}
	if len(m.Attempts) > 0 {
		return printAttempts(l.streams, m)
	}
	if m.Status == state.StatusInterrupted { // what its files claim is not an answer
		return nil
	}
	response, err := turnfiles.ReadEnd(entry.OutputDir())
	if errors.Is(err, fs.ErrNotExist) || err == nil && response == nil {
		return nil
	}
	if err != nil {
		return err
	}
	if answer := strings.TrimSpace(response.OutputText()); answer != "" {
		if _, err = fmt.Fprintln(l.streams.Out); err == nil {
			err = l.streams.printAnswer(answer)
		}
	}
	return err
}

func (l *lifecycle) showOpen(ctx context.Context, entry *files.Entry) (err error) {
	v, err := oneshot.Look(ctx, l.home, l.engine, entry)
	if len(v.Attempts) > 0 && err == nil && !l.JSON {
		defer func() { err = cmp.Or(err, l.showStanding(v)) }()
	}
	return l.showFacts(v, err, "run", v.ID, "name", v.Name, "task", v.Task, "continues", v.Parent,
		"status", standing(v), "problem", v.Problem, "container", v.Container,
		"started", l.streams.when(v.StartedAt), "workspace", v.Workspace.Path, "model", v.Model,
		"engine", v.Engine.Name, "results", v.OutputDir)
}

func (l *lifecycle) showManifest(m *state.Manifest, dir string) error {
	end := fmt.Sprintf("%s (exit code %d)", m.Outcome, m.ExitCode)
	if m.Error != nil {
		end += ": " + line(*m.Error)
	}
	ws := workspaceOf(m)
	engine := m.Engine.Name
	if engine != settings.EngineLocal {
		engine += " " + m.Image
	}
	return facts(l.streams, "run", m.RunID, "name", m.Name, "task", m.Task,
		"continues", m.ParentRunID, "status", string(m.Status), "outcome", end,
		"started", l.streams.when(m.StartedAt),
		"took", elapsed(m.Timings.TotalMS),
		"workspace", filepath.Join(ws.Path, ws.Prefix), "model", m.Answered(),
		"check", checkOf(m), "best", bestOf(m), "tokens", oneshot.Used(m), "budget", oneshot.Spent(m), "engine", engine,
		"isolation", isolationOf(m), "network", networkOf(m), "services", servicesText(m),
		"results", dir)
}

// networkOf names the hosts that the container could reach, "" for none of its own.
func networkOf(m *state.Manifest) string {
	if m.Egress == nil {
		return ""
	}
	return fmt.Sprintf("open to %s: %s, %d denied", strings.Join(slices.Concat(m.Egress.AllowHosts, m.Egress.PrivateHosts),
		", "),
		count(int(m.Egress.Allowed), "connection"), m.Egress.Denied)
}

// showWarnings names what programs execute of the change, what was left out of it, and what else was not as it should
// be.
func (l *lifecycle) showWarnings(m *state.Manifest) error {
	var lines []string
	if diff := workspaceOf(m).Changes; diff != nil {
		for i, line := range oneshot.ExecutedFiles(diff.Warnings) {
			if i > 0 { // the first is a heading
				lines = append(lines, "executed", strings.TrimSpace(line))
			}
		}
		if diff.Incomplete {
			lines = append(lines, "incomplete", "changes were left out, which the warnings name")
		}
	}
	for _, w := range m.Warnings {
		lines = append(lines, "warning", w)
	}
	return facts(l.streams, lines...)
}

// isolationOf names what is weaker than the strict default.
func isolationOf(m *state.Manifest) string {
	if m.Isolation == nil {
		return ""
	}
	weaker := map[state.Level][]string{}
	for name, axis := range m.Isolation.Axes() {
		weaker[axis.Level] = append(weaker[axis.Level], name)
	}
	switch open, shaped := weaker[state.NotEnforced], weaker[state.RuntimeShaped]; {
	case len(weaker[state.HardEnforced])+len(shaped) == 0:
		return "none: it ran as you, on this machine"
	case len(open)+len(shaped) == 0:
		return "strict"
	case len(shaped) == 0:
		return "strict but for " + strings.Join(open, ", ")
	case len(open) == 0:
		return "strict but weaker: " + strings.Join(shaped, ", ")
	default:
		return "strict but for " + strings.Join(open, ", ") + "; weaker: " + strings.Join(shaped, ", ")
	}
}
