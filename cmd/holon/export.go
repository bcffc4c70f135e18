package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"holon/internal/durable"
	"holon/internal/visible"
	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/control/wire"
)

func newExportCommand(streams Streams) *cobra.Command {
	all := []*cobra.Command{}
	for _, kind := range []struct{ name, short, note string }{
		{"evidence", "Export all that an agent did, with its read models", `

Evidence that was written to a file is noted in the record: the directories of the turns
in it are not kept for the record any more.`},
		{"replay", "Export all that an agent did, to fold it again", ""},
		{"review", "Export what an agent is and what failed, without its events", ""},
	} {
		file, through := "", int64(0)
		var cmd *cobra.Command
		cmd = remoteCommand(streams, kind.name, kind.short,
			func(ctx context.Context, r *remote) error {
				if cmd.Flags().Changed("through") && through < 1 {
					return usage("--through", fmt.Sprintf("%d is not the number of an event", through), "give 1 or more")
				}
				return runExport(ctx, r, kind.name, file, through)
			})
		cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; default, and -, the standard output")
		cmd.Flags().Int64Var(&through, "through", 0, "`number` of the last event that counts; default, the newest")
		cmd.Long = kind.short + `: one JSON document, of one moment.
Its manifest has the cut, the SHA-256 of each part, and the gaps of the record. The same
cut is the same document, whatever the agent does later. A document with a secret that
holon never prints is only written to a file. With --json and a file, its manifest is
printed.` + kind.note
		all = append(all, cmd)
	}
	return group("export", "Export the record of an agent", "The record is what an agent did: an immutable log of events.",
		all...)
}

func runExport(ctx context.Context, r *remote, kind, file string, through int64) error {
	doc, err := r.Export(ctx, r.Agent, kind, through)
	if err != nil {
		return err
	}
	if file == "" || file == "-" {
		return printExport(r.streams, doc)
	}
	var d struct{ Manifest record.Manifest }
	if err := json.Unmarshal(doc, &d); err != nil {
		return fmt.Errorf("read the manifest of the export: %w", err)
	}
	err = writeNew("--output", file, append(doc, '\n'))
	if err == nil && kind == "evidence" {
		err = confirmExport(ctx, r, d.Manifest.ThroughSequence)
	}
	if err == nil && r.JSON {
		err = printJSON(r.streams, d.Manifest)
	}
	return err
}

// printExport prints a document, unless a secret of this process would be taken out of it: its digests would be wrong.
func printExport(streams Streams, doc json.RawMessage) error {
	if !bytes.Equal(streams.Secrets.JSON(doc, turns.Recorded), doc) {
		return usage("--output", "is missing, and the document has a secret that is never printed, so that its digests "+
			"would be wrong", "write it to a file: --output FILE")
	}
	return printRaw(streams, doc)
}

// confirmExport records that evidence is on disk, so that directories of turns may go.
func confirmExport(ctx context.Context, r *remote, through int64) error {
	_, err := r.Command(ctx, "export_evidence", wire.Command{AgentID: r.Agent, Through: &through,
		CommandID: fmt.Sprint("export-", through)})
	return err
}

// writeNew writes a file that does not exist yet, so that a mistyped name costs nothing.
func writeNew(flag, path string, data []byte) error {
	f, err := durable.Create(path, os.O_WRONLY, 0o600)
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
