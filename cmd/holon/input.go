package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"holon/internal/userprogram"
	"holon/internal/visible"
)

// maxPrompt bounds a prompt; larger material belongs into files.
const maxPrompt = 8 << 20

// missing is what an error says of a prompt that is not there.
const missing = "is missing"

// readPrompt returns the prompt that the argument and standard input make together: what is piped in follows the
// argument, and is the prompt where there is none or "-". Without either a person at a terminal writes it in an editor.
func readPrompt(ctx context.Context, args []string, streams Streams, h *host) (prompt string, err error) {
	if len(args) > 1 {
		return "", usage("PROMPT", fmt.Sprintf("there are %d arguments", len(args)), "put the task in quotes")
	}
	asked := len(args) == 1 && args[0] == "-"
	if len(args) == 1 && !asked {
		prompt = args[0]
	}
	switch {
	case asked || !streams.InTTY:
		prompt, err = joinInput(ctx, prompt, streams, asked)
	case len(args) == 0:
		prompt, err = editPrompt(ctx, streams, h)
	}
	switch {
	case err != nil:
		return "", err
	case len(prompt) > maxPrompt:
		return "", usage("PROMPT", fmt.Sprintf("is larger than %d MiB", maxPrompt>>20),
			"put it into a file and name its folder with --input")
	case prompt == "" && len(args) == 0:
		return "", usage("PROMPT", missing, `write the task in quotes, or "-" to read it from standard input`)
	case strings.TrimSpace(prompt) == "":
		return "", usage("PROMPT", "is empty", "say what is to be done")
	case strings.ContainsRune(prompt, 0):
		return "", usage("PROMPT", "is not text", "name the folder of a file that is not text with --input")
	}
	return strings.ToValidUTF8(prompt, "\uFFFD"), nil
}

// patience is how long standard input that no one asked for is awaited in silence.
const patience = 3 * time.Second

// joinInput adds standard input to a prompt. A pipe that stays open holds the command up, which says so. Input that
// cannot be read counts as none where no one asked for it: nohup leaves such, and so does a terminal to a job in the
// background.
func joinInput(ctx context.Context, prompt string, streams Streams, asked bool) (string, error) {
	if !asked {
		hint := time.AfterFunc(patience, func() {
			streams.say("holon: waiting for the end of standard input, which is added to the prompt; </dev/null leaves it out")
		})
		defer hint.Stop()
	}
	data, err := readAll(ctx, io.LimitReader(streams.In, maxPrompt+1))
	unreadable := len(data) == 0 && (errors.Is(err, syscall.EBADF) || errors.Is(err, syscall.EIO))
	switch {
	case unreadable && !asked:
		err = nil
	case unreadable:
		err = usage("PROMPT", "standard input cannot be read", "write the task in quotes, or redirect a file to it")
	case errors.Is(err, syscall.EISDIR):
		err = usage("PROMPT", "standard input is a directory", "redirect a file to it, or name the folder with --input")
	}
	if err != nil {
		return "", err
	}
	if prompt == "" || strings.TrimSpace(string(data)) == "" {
		return prompt + string(data), nil
	}
	return strings.TrimRight(prompt, "\n") + "\n\n" + string(data), nil
}

// editPrompt returns what a person writes in an editor, which may be a command with arguments.
func editPrompt(ctx context.Context, streams Streams, h *host) (string, error) {
	variable, editor := "VISUAL", h.Visual
	if editor == "" {
		variable, editor = "EDITOR", h.Editor
	}
	if editor == "" || !streams.ErrTTY {
		return "", usage("PROMPT", missing,
			`write the task in quotes, "-" to read it from standard input, or set EDITOR to write it there`)
	}
	dir, err := os.MkdirTemp("", "holon-prompt-")
	if err != nil {
		return "", fmt.Errorf("make a file for the prompt: %w", err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "PROMPT.md")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		return "", fmt.Errorf("make a file for the prompt: %w", err)
	}
	cmd := userprogram.Command(ctx, editor, file)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", usage(variable, fmt.Sprintf("%q: %v", visible.OneLine(editor, 100), err),
			"set it to a command that opens a file and returns when it is closed")
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return "", fmt.Errorf("read the prompt: %w", err)
	}
	return string(data), nil
}

// readAll is io.ReadAll that ends with ctx. With an error of the reader it returns what came before it.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	data, err := untilDone(ctx, func() ([]byte, error) { return io.ReadAll(r) })
	if err != nil && ctx.Err() == nil {
		err = fmt.Errorf("read the prompt: %w", err)
	}
	return data, err
}

// untilDone returns what read returns, or the cause of ctx when that ends first. A read of a terminal or a pipe cannot
// be broken off, so it is left behind then: the process is about to end.
func untilDone[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type result struct {
		data T
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
		var none T
		return none, context.Cause(ctx)
	}
}

// openInput opens a file, or the standard input for "-". Opening it and each read end with ctx, also those of a pipe.
func openInput(ctx context.Context, streams Streams, name string) (io.ReadCloser, error) {
	in := io.NopCloser(streams.In)
	if name != "-" {
		file, err := untilDone(ctx, func() (*os.File, error) { return os.Open(name) })
		if err != nil {
			return nil, err
		}
		in = file
	}
	out, pump := io.Pipe()
	stop := context.AfterFunc(ctx, func() { pump.CloseWithError(context.Cause(ctx)) })
	go func() {
		defer stop()
		defer in.Close()
		_, err := io.Copy(pump, in)
		pump.CloseWithError(err)
	}()
	return out, nil
}
