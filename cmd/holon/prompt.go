package main

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/responses"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// promptOptions are what `holon prompt` was asked to do, without the text.
type promptOptions struct {
	priority, key, format string
	attached              []string
	follow, quiet         bool
}

func newPromptCommand(streams Streams) *cobra.Command {
	o := &promptOptions{}
	cmd := remoteCommand(streams, "prompt TEXT", "Give an agent something to do",
		func(ctx context.Context, r *remote) error { return runPrompt(ctx, r, o) })
	cmd.Args = cobra.ArbitraryArgs // which readPrompt checks
	cmd.Long = `Give an agent of the daemon something to do. It is queued, and answered in a turn
of its own; with --follow the command stays until that turn has ended, shows what
is done, and prints the answer. The exit code is then that of the turn: 0
completed, 1 failed, 3 needs the operator, 4 no turn could be run, 124 out of
time, 130 aborted.

TEXT is one argument. Standard input that is not a terminal is added to it; "-" or
no TEXT takes all of it from there. At a terminal, no TEXT opens your EDITOR.`
	cmd.Example = `  holon prompt "what changed since yesterday?"
  holon prompt --agent release --follow "prepare the notes"`
	f := cmd.Flags()
	f.StringVar(&o.priority, "priority", string(ledger.Normal),
		"`priority`: interject (into the turn that runs), next, normal or background")
	f.StringArrayVar(&o.attached, "attach", nil, "`file` to put into the agent's home with the prompt; repeatable")
	f.BoolVarP(&o.follow, "follow", "f", false, "stay until the turn has ended, and print the answer")
	f.StringVar(&o.key, "key", "", "`text` under which this prompt is given once, however often it is sent")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "with --follow: show no progress")
	f.StringVar(&o.format, "output-format", "",
		"`format`: text (the default), json (as --json), or with --follow stream-json, each event on a line")
	return cmd
}

func runPrompt(ctx context.Context, r *remote, o *promptOptions) error {
	r.Format = o.format
	if err := checkFormat(&r.Format, &r.JSON); err != nil {
		return err
	}
	if r.streaming() && !o.follow {
		return usage("--output-format", "stream-json shows what is done for the prompt", "add --follow")
	}
	text, err := readPrompt(ctx, r.args, r.streams, &r.host)
	if err != nil {
		return err
	}
	parts, err := attachments(o.attached)
	if err != nil {
		return err
	}
	sent, err := r.Prompt(ctx, r.Agent,
		wire.Prompt{Text: text, Parts: parts, Priority: o.priority, Surface: string(ledger.SurfaceCLIPrompt)}, o.key)
	if err != nil {
		return err
	}
	if !o.follow {
		return r.show(sent, nil, func() error {
			if !r.streams.OutTTY {
				_, err := fmt.Fprintln(r.streams.Out, visible.OneLine(sent.MessageID, 100))
				return err
			}
			return r.streams.print("", "  ", fmt.Sprintf("%s is queued for %s; watch with: holon tail -f --agent %s",
				sent.MessageID, sent.AgentID, sent.AgentID))
		})
	}
	end, err := r.watch(ctx, sent, o.quiet || r.JSON)
	if err != nil {
		return err
	}
	outcome, _ := outcomeOf(end)
	last := ""
	if end.Turn != nil {
		last = end.Turn.Last
	}
	return r.showEnd(end, struct {
		view.MessageState
		Outcome  state.Outcome `json:"outcome"` // as in the manifest of a run
		ExitCode int           `json:"exit_code"`
	}{end, outcome, outcome.ExitCode()}, last, o.quiet)
}

// maxAttached bounds the files of a prompt, in bytes.
const maxAttached = 20 << 20

// attachments reads the files that go with a prompt.
func attachments(paths []string) (parts []wire.Part, err error) {
	left := int64(maxAttached)
	for _, path := range paths {
		info, err := os.Stat(path)
		switch {
		case err != nil:
			return nil, usage("--attach", err.Error(), "name a file that can be read")
		case !info.Mode().IsRegular():
			return nil, usage("--attach", visible.Name(path)+" is not a file", "name a file that can be read")
		case info.Size() > left:
			return nil, usage("--attach", "the files have more than "+visible.Size(maxAttached), "attach smaller ones")
		}
		left -= info.Size()
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, usage("--attach", err.Error(), "name a file that can be read")
		}
		parts = append(parts, wire.Part{Type: responses.PartInputFile, FileName: filepath.Base(path),
			FileData: "data:application/octet-stream;base64," + base64.StdEncoding.EncodeToString(data)})
	}
	return parts, nil
}
