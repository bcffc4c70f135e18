package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/runner/agent/view"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// promptOptions are what `holon prompt` was asked to do, without the text.
type promptOptions struct {
	priority, key string
	follow, quiet bool
}

// newPromptCommand makes `holon prompt`.
func newPromptCommand(streams Streams) *cobra.Command {
	o := &promptOptions{}
	cmd, r := remoteCommand(streams, "prompt [flags] TEXT", "Give an agent something to do", 0, 64,
		func(ctx context.Context, r *remote) error {
			return runPrompt(ctx, r, o)
		})
	cmd.Long = `Give an agent of the daemon something to do. It is queued, and answered in a turn
of its own; with --follow the command stays until that turn has ended, shows what
is done, and prints the answer. The exit code is then that of the turn: 0
completed, 1 failed, 3 needs the operator, 4 no turn could be run, 124 out of
time, 130 aborted.

TEXT is one argument; "-" reads it from standard input.`
	cmd.Example = `  holon prompt "what changed since yesterday?"
  holon prompt --agent release --follow "prepare the notes" `
	r.onAgent(cmd)
	f := cmd.Flags()
	f.StringVar(&o.priority, "priority", string(ledger.Normal),
		"interject (into the turn that runs), next, normal or background")
	f.BoolVarP(&o.follow, "follow", "f", false, "stay until the turn has ended, and print the answer")
	f.StringVar(&o.key, "key", "", "`text` under which this prompt is given once, however often it is sent")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "with --follow: show no progress")
	completeWords(cmd, "priority", string(ledger.Interject), string(ledger.Next), string(ledger.Normal),
		string(ledger.Background))
	return cmd
}

func runPrompt(ctx context.Context, r *remote, o *promptOptions) error {
	text, err := readPrompt(ctx, r.args, r.streams.In)
	if err != nil {
		return err
	}
	sent, err := r.Prompt(ctx, r.Agent,
		wire.Prompt{Text: text, Priority: o.priority, Surface: string(ledger.SurfaceCLIPrompt)}, o.key)
	if err != nil {
		return err
	}
	if !o.follow {
		if r.JSON {
			return printJSON(r.streams, sent)
		}
		if r.streams.OutTTY {
			_, err = fmt.Fprintf(r.streams.Out, "%s is queued for %s; watch with: holon tail -f --agent %s\n",
				sent.MessageID, sent.AgentID, sent.AgentID)
			return err
		}
		_, err = fmt.Fprintln(r.streams.Out, visible.OneLine(sent.MessageID, 100))
		return err
	}
	end, _, err := r.watch(ctx, sent, o.quiet || r.JSON)
	if err != nil {
		return err
	}
	if !r.JSON {
		return r.showAnswer(end, o.quiet)
	}
	outcome, _ := outcomeOf(end)
	if err := printJSON(r.streams, struct {
		view.MessageState
		Outcome  state.Outcome `json:"outcome"` // as in the manifest of a run
		ExitCode int           `json:"exit_code"`
	}{end, outcome, outcome.ExitCode()}); err != nil {
		return err
	}
	return outcomeExit(outcome)
}

// maxPrompt bounds a prompt; larger material belongs into files.
const maxPrompt = 8 << 20

func readPrompt(ctx context.Context, args []string, stdin io.Reader) (string, error) {
	if len(args) == 0 {
		return "", usage("PROMPT", "is missing", `write the task in quotes, or "-" to read it from standard input`)
	}
	if len(args) > 1 {
		return "", usage("PROMPT", fmt.Sprintf("there are %d arguments", len(args)), "put the task in quotes")
	}
	prompt := args[0]
	if prompt == "-" {
		data, err := readAll(ctx, io.LimitReader(stdin, maxPrompt+1))
		if err != nil {
			return "", err
		}
		prompt = string(data)
	}
	if len(prompt) > maxPrompt {
		return "", usage("PROMPT", fmt.Sprintf("is larger than %d MiB", maxPrompt>>20),
			"put it into a file and name its folder with --input")
	}
	if strings.TrimSpace(prompt) == "" {
		return "", usage("PROMPT", "is empty", "say what is to be done")
	}
	return strings.ToValidUTF8(prompt, "\uFFFD"), nil
}

// readAll is io.ReadAll that ends with ctx.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	data, err := untilDone(ctx, func() ([]byte, error) { return io.ReadAll(r) })
	if err != nil && ctx.Err() == nil {
		return nil, fmt.Errorf("read the prompt: %w", err)
	}
	return data, err
}

// untilDone returns what read returns, or the cause of ctx when that ends first. A read of a terminal or a pipe cannot
// be broken off, so it is left behind then: the process is about to end.
func untilDone(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case got := <-done:
		return got.data, got.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
