package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"holon/internal/durable"
	"holon/internal/visible"
	"holon/runner/agent/readmodel"
	"holon/runner/control/wire"
)

// newExportCommand makes `holon export`.
func newExportCommand(streams Streams) *cobra.Command {
	all := []*cobra.Command{}
	for _, kind := range []struct{ name, short, note string }{
		{"evidence", "Export all that an agent did, with its read models", `

Evidence that was written to a file is told in the record: the directories of the turns
that it tells of are not kept for the record any more.`},
		{"replay", "Export all that an agent did, to fold it again", ""},
		{"review", "Export what an agent is and what failed, without its events", ""},
	} {
		file, through := "", int64(0)
		cmd, r := remoteCommand(streams, kind.name+" [flags]", kind.short, 0, 0,
			func(ctx context.Context, r *remote) error { return runExport(ctx, r, kind.name, file, through) })
		r.onAgent(cmd)
		cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; default the standard output")
		cmd.Flags().Int64Var(&through, "through", 0, "`number` of the last event that counts; 0 the newest")
		cmd.Long = kind.short + `: one JSON document, of one moment.
Its manifest has the cut, the SHA-256 of each part, and the gaps of the record. The same
cut is the same document, whatever the agent does later.` + kind.note
		all = append(all, cmd)
	}
	return group("export", "Export the record of an agent", "The record is what an agent did: an immutable log of events.",
		all...)
}

func runExport(ctx context.Context, r *remote, kind, file string, through int64) error {
	if through < 0 {
		return usage("--through", fmt.Sprintf("%d is not the number of an event", through), "give 1 or more")
	}
	doc, err := r.Export(ctx, r.Agent, kind, through)
	if err != nil {
		return err
	}
	if file == "" {
		return printRaw(r.streams, doc)
	}
	if err := writeNew("--output", file, append(doc, '\n')); err != nil || kind != "evidence" {
		return err
	}
	return confirmExport(ctx, r, doc)
}

// confirmExport tells the record that evidence is on disk, so that directories of turns may go.
func confirmExport(ctx context.Context, r *remote, doc []byte) error {
	var d struct{ Manifest readmodel.Manifest }
	if err := json.Unmarshal(doc, &d); err != nil {
		return fmt.Errorf("read the manifest of the export: %w", err)
	}
	_, err := r.Command(ctx, "export_evidence", wire.Command{AgentID: r.Agent, Through: d.Manifest.ThroughSequence,
		CommandID: fmt.Sprint("export-", d.Manifest.ThroughSequence)})
	return err
}

// writeNew writes a file that does not exist yet, so that a mistyped name costs nothing.
func writeNew(flag, path string, data []byte) error {
	f, err := durable.Create(path, os.O_WRONLY)
	switch {
	case errors.Is(err, fs.ErrExist):
		return usage(flag, fmt.Sprintf("%q exists", visible.OneLine(path, 500)), "move it away first, or name another file")
	case err != nil:
		return usage(flag, err.Error(), "name a file that can be written")
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return errors.Join(usage(flag, err.Error(), "free space, or name a file elsewhere"), os.Remove(path))
	}
	return nil
}
