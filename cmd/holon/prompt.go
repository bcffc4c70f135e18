package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// maxPrompt bounds a prompt; larger material belongs into files.
const maxPrompt = 8 << 20

func readPrompt(ctx context.Context, args []string, stdin io.Reader) (string, error) {
	if len(args) == 0 {
		return "", usageError{errors.New(`PROMPT: is missing; write the task in quotes, or "-" to read it from standard input`)}
	}
	if len(args) > 1 {
		return "", usageError{fmt.Errorf("PROMPT: there are %d arguments; put the task in quotes", len(args))}
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
		return "", usageError{fmt.Errorf("PROMPT: is larger than %d MiB; put it into a file and name its folder with --input", maxPrompt>>20)}
	}
	if strings.TrimSpace(prompt) == "" {
		return "", usageError{errors.New("PROMPT: is empty; say what is to be done")}
	}
	return strings.ToValidUTF8(prompt, "\uFFFD"), nil
}

// readAll is io.ReadAll that ends with ctx. A read of a terminal or a pipe cannot
// be broken off, so it is left behind then: the process is about to end.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(r)
		done <- result{data, err}
	}()
	select {
	case got := <-done:
		if got.err != nil {
			return nil, fmt.Errorf("read the prompt: %w", got.err)
		}
		return got.data, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
