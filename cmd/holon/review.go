package main

import (
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
	"holon/runner/oneshot"
	"holon/runner/review"
)

// reviewFlag is the flag of run with the file of comments.
const reviewFlag = "review"

// newReviewCommand makes `holon review`: `holon run --continue` with comments on lines in the place of a prompt.
func newReviewCommand(streams Streams) *cobra.Command {
	cmd := newRunCommand(streams)
	run := cmd.RunE
	cmd.Use, cmd.Short = "review RUN", "Go on with a run, with comments on the lines of its change"
	cmd.Args = argumentsOfUse
	cmd.Long = `Send comments on the change of a run to its agent, which goes on with them as with
holon run --continue, in a run of its own.

A comment is a line FILE:LINE: TEXT, with the lines below it that are none of their
own; FILE: TEXT is of a file, and what comes first of the change as a whole. LINE is
one of the changed file. JSON is taken too: a list, or an object on each line, with
file, line and text.`
	cmd.Example = `  holon review last --comments notes.txt
  echo "main.go:12: close the file" | holon review last --comments -`
	f := cmd.Flags()
	comments := ""
	f.StringVar(&comments, "comments", "", "`file` with the comments, - for standard input")
	shown := []string{"comments", "model", "detach", "json", "output-format", "quiet", "timeout", "name"}
	f.VisitAll(func(flag *pflag.Flag) {
		flag.Hidden = true
		for _, name := range shown {
			flag.Hidden = flag.Hidden && flag.Name != name
		}
	})
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if comments == "" {
			return usage("--comments", missing, "name a file with comments, or - for standard input")
		}
		for name, value := range map[string]string{"continue": args[0], reviewFlag: comments} {
			if err := f.Set(name, value); err != nil {
				return err
			}
		}
		return run(cmd, nil)
	}
	return cmd
}

// readTask returns the prompt: comments on the change of the run that this one continues, with the prompt of the
// arguments below them, or what readPrompt returns.
func (o *runOptions) readTask(cmd *cobra.Command, args []string) (string, error) {
	if !cmd.Flags().Changed(reviewFlag) {
		return readPrompt(cmd.Context(), args, o.streams, &o.host)
	}
	if len(args) > 1 || len(args) == 1 && args[0] == "-" {
		return "", usage("PROMPT", "the comments are the prompt", "leave it out, or write one text that goes with them")
	}
	_, diff, err := result(o.parent)
	if err != nil {
		return "", err
	}
	if diff == nil || len(diff.Files) == 0 {
		return "", usage("RUN", o.parent.ID+" changed no file", "go on with: holon run --continue "+o.parent.ID)
	}
	patch, err := textFile("RUN", filepath.Join(o.parent.OutputDir(), oneshot.DiffFile), maxReviewed)
	if err != nil {
		return "", err
	}
	in, err := openInput(cmd.Context(), o.streams, o.Review)
	var data []byte
	if err == nil {
		defer in.Close()
		data, err = io.ReadAll(io.LimitReader(in, maxPrompt+1))
	}
	if err == nil && len(data) > maxPrompt {
		return "", usage("--comments", "are too long", "send fewer")
	}
	if err != nil {
		return "", usage("--comments", visible.OneLine(err.Error(), 300), "name a file that can be read, or -")
	}
	comments, err := review.Parse(strings.ToValidUTF8(string(data), "\uFFFD"), patch)
	if err != nil {
		return "", usage("--comments", visible.OneLine(err.Error(), 600), "write FILE:LINE: TEXT; see holon review --help")
	}
	text := review.Message(comments)
	if len(args) == 1 {
		text += "\n" + args[0] + "\n"
	}
	return text, nil
}

// maxReviewed bounds the patch in which comments find their lines, in bytes.
const maxReviewed = 256 << 20
