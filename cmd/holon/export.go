package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holon/internal/durable"
)

// newExportCommand makes `holon export`.
func newExportCommand(streams Streams) *cobra.Command {
	all := []*cobra.Command{}
	for _, kind := range []struct{ name, short string }{
		{"evidence", "Export all that an agent did, with its read models"},
		{"replay", "Export all that an agent did, to fold it again"},
		{"review", "Export what an agent is and what failed, without its events"},
	} {
		file, through := "", int64(0)
		cmd, r := remoteCommand(streams, kind.name+" [flags]", kind.short, 0, 0,
			func(ctx context.Context, r *remote) error { return runExport(ctx, r, kind.name, file, through) })
		r.onAgent(cmd)
		cmd.Flags().StringVarP(&file, "output", "o", "", "`file` to write; default the standard output")
		cmd.Flags().Int64Var(&through, "through", 0, "`number` of the last event that counts; 0 the newest")
		cmd.Long = kind.short + `: one JSON document, of one moment.
Its manifest has the cut, the SHA-256 of each part, and the gaps of the record. The same
cut is the same document, whatever the agent does later.`
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
	if err := durable.WriteFile(file, append(doc, '\n'), 0o600); err != nil {
		return usage("--output", err.Error(), "name a file that can be written")
	}
	return nil
}
