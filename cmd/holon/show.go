package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"holon/runner/oneshot"
	"holon/runner/settings"
	"holon/runner/turnfiles"
	"holon/state"
	"holon/state/files"
)

// newShowCommand makes `holon show`.
func newShowCommand(streams Streams) *cobra.Command {
	cmd := lifecycleCommand(streams, "show [RUN]", "Show what became of a run", 1,
		func(ctx context.Context, l *lifecycle, args []string) error {
			ref, err := runOrLast(args)
			if err != nil {
				return err
			}
			entry, err := findRun(ctx, l.home, ref)
			if err != nil {
				return err
			}
			return l.show(ctx, entry)
		})
	cmd.Long = `Show what became of a run, by default the last one: its task, its end, what it
used, how it was isolated, the files that it changed, what to look at before they
are applied, and its answer. With --json
its manifest, or, of a run without an end, what holon ps knows of it.

` + aboutRun
	cmd.Example = "  holon show\n  holon show --json last"
	return cmd
}

func (l *lifecycle) show(ctx context.Context, entry *files.Entry) error {
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
	if err := l.showManifest(m, entry.OutputDir()); err != nil {
		return err
	}
	changed := newTable(l.streams)
	for _, f := range changes(m) {
		changed.row(f.Status, namesOf(f), lineCounts(f))
	}
	if err := changed.end(); err != nil {
		return err
	}
	if err := l.showWarnings(m); err != nil {
		return err
	}
	if m.Status == state.StatusInterrupted { // what its files claim is not an answer
		return nil
	}
	response, err := turnfiles.ReadEnd(entry.OutputDir())
	if err != nil || response == nil {
		return ignoreMissing(err)
	}
	if answer := strings.TrimSpace(response.OutputText()); answer != "" {
		if _, err = fmt.Fprintln(l.streams.Out); err == nil {
			err = l.streams.printAnswer(answer)
		}
	}
	return err
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// showOpen shows a run without an end.
func (l *lifecycle) showOpen(ctx context.Context, entry *files.Entry) error {
	v, err := oneshot.Look(ctx, l.home, l.engine, entry)
	if err != nil {
		return err
	}
	if l.JSON {
		return printJSON(l.streams, v)
	}
	return facts(l.streams, [2]string{"run", v.ID}, [2]string{"name", v.Name}, [2]string{"task", v.Task},
		[2]string{"continues", v.Parent}, [2]string{"status", standing(v)}, [2]string{"problem", v.Problem},
		[2]string{"container", v.Container}, [2]string{"started", l.streams.moment(v.StartedAt)},
		[2]string{"workspace", v.Workspace.Path}, [2]string{"model", v.Model}, [2]string{"engine", v.Engine.Name},
		[2]string{"results", v.OutputDir})
}

func (l *lifecycle) showManifest(m *state.Manifest, dir string) error {
	end := fmt.Sprintf("%s (exit code %d)", m.Outcome, m.ExitCode)
	if m.Error != nil {
		end += ": " + line(*m.Error)
	}
	ws := workspaceOf(m)
	engine := m.Engine.Name
	if engine == settings.EngineDocker {
		engine += " " + m.Image
	}
	return facts(l.streams, [2]string{"run", m.RunID}, [2]string{"name", m.Name}, [2]string{"task", m.Task},
		[2]string{"continues", m.ParentRunID}, [2]string{"status", string(m.Status)}, [2]string{"outcome", end},
		[2]string{"started", l.streams.moment(m.StartedAt)},
		[2]string{"took", elapsed(m.Timings.TotalMS)},
		[2]string{"workspace", filepath.Join(ws.Path, ws.Prefix)}, [2]string{"model", m.Model},
		[2]string{"tokens", tokensUsed(m)}, [2]string{"budget", oneshot.Spent(m)}, [2]string{"engine", engine},
		[2]string{"isolation", isolationOf(m)}, [2]string{"network", networkOf(m)}, [2]string{"results", dir})
}

// networkOf names the hosts that the container could reach, "" for none of its own.
func networkOf(m *state.Manifest) string {
	if m.Egress == nil {
		return ""
	}
	return fmt.Sprintf("open to %s: %s, %d denied", strings.Join(m.Egress.AllowHosts, ", "),
		count(int(m.Egress.Allowed), "connection"), m.Egress.Denied)
}

// showWarnings names what programs execute of the change, what was left out of it, and what else was not as it should
// be.
func (l *lifecycle) showWarnings(m *state.Manifest) error {
	var lines [][2]string
	if diff := workspaceOf(m).Changes; diff != nil {
		for i, line := range oneshot.ExecutedFiles(diff.Warnings) {
			if i > 0 { // the first is a heading
				lines = append(lines, [2]string{"executed", strings.TrimSpace(line)})
			}
		}
		if diff.Incomplete {
			lines = append(lines, [2]string{"incomplete", "changes were left out, which the warnings name"})
		}
	}
	for _, w := range m.Warnings {
		lines = append(lines, [2]string{"warning", w})
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
