package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holon/internal/visible"
	"holon/state"
)

// base is what commands share: where they print, what the environment says, and the state home.
type base struct {
	streams Streams
	host
	JSON     bool
	args     []string
	home     state.Home
	homeless bool // the command works, and reports what is wrong, without a home that can be used
}

// command makes a command whose arguments are those of its use. It makes nothing before do does.
func (b *base) command(use, short string, do func(context.Context) error) *cobra.Command {
	cmd := &cobra.Command{Use: use, Short: short, Args: argumentsOfUse}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if err := b.begin(args); err != nil {
			return err
		}
		return do(cmd.Context())
	}
	cmd.Flags().SortFlags = false
	cmd.Flags().BoolVar(&b.JSON, "json", false, "print JSON")
	return cmd
}

func (b *base) begin(args []string) (err error) {
	b.args = args
	if err := b.host.fromEnv(); err != nil {
		return err
	}
	if b.home, err = state.FindHome(b.Home, b.UserHome); b.homeless {
		return nil
	}
	return err
}

// show prints what a command found, as JSON where that is asked for, else with text.
func (b *base) show(found any, err error, text func() error) error {
	switch {
	case err != nil:
		return err
	case b.JSON:
		return printJSON(b.streams, found)
	}
	return text()
}

// showFacts is show with names and values as the text.
func (b *base) showFacts(found any, err error, pairs ...string) error {
	return b.show(found, err, func() error { return facts(b.streams, pairs...) })
}

// showRow is show with one line of cells as the text.
func (b *base) showRow(found any, err error, cells ...string) error {
	return b.show(found, err, func() error { return printRow(b.streams, cells...) })
}

// showList prints what a command found: as JSON, or a row for each below the heads of newTable.
func showList[T any](b *base, found []T, err error, heads []string, row func(T) []string) error {
	if found == nil {
		found = []T{}
	}
	return b.show(found, err, func() error { return printTable(b.streams, found, heads, row) })
}

// argumentNames are the words of a command's usage that stand for arguments.
func argumentNames(cmd *cobra.Command) (names []string) {
	words := strings.Fields(cmd.Use)
	for _, word := range words[min(1, len(words)):] {
		if word = strings.Trim(word, "[]"); word == strings.ToUpper(word) {
			names = append(names, word)
		}
	}
	return names
}

// namesOfThings are the arguments that are never empty: an empty one comes from a variable of a script that is not set.
var namesOfThings = []string{"AGENT", "MESSAGE", "TIMER", "TASK", "ITEM", "RUN", "NAME", "FILE", "SOURCE", "KEY",
	"SESSION"}

// argumentsOfUse refuses arguments that are not in a command's usage. There, those in brackets may be left out, and one
// with dots may be repeated.
func argumentsOfUse(cmd *cobra.Command, args []string) error {
	names := argumentNames(cmd)
	least, most := len(names)-strings.Count(cmd.Use, "["), len(names)
	write, help := "write: "+useLine(cmd), "; "+seeHelp(cmd)
	if len(args) < least {
		return usage(names[len(args)], "is missing", write+help)
	}
	if len(args) > most && !strings.HasSuffix(cmd.Use, "...") {
		if parent := cmd.Parent(); parent != nil && parent.Name() == "credentials" { // it may be a key
			return usage("ARGUMENT", "there is one more than expected", "a key is read from standard input; "+write+help)
		}
		return usage("ARGUMENT", fmt.Sprintf("%q is not expected", visible.OneLine(args[most], 100)), write+help)
	}
	for i, arg := range args[:min(len(args), len(names))] {
		if arg == "" && slices.Contains(namesOfThings, names[i]) {
			return usage(names[i], "is empty", seeHelp(cmd))
		}
	}
	return nil
}
