package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// A short form stands for the same flag in every command that has it.
func TestShortFormsAgree(t *testing.T) {
	long := map[string]string{}
	walk(newRoot(notTerminals(nil, nil)), func(cmd *cobra.Command) {
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand == "" {
				return
			}
			if other, ok := long[f.Shorthand]; ok && other != f.Name {
				t.Errorf("%s: -%s is --%s, and --%s elsewhere", cmd.CommandPath(), f.Shorthand, f.Name, other)
			}
			long[f.Shorthand] = f.Name
		})
	})
}

// walk visits the commands that do something, each before those below it.
func walk(cmd *cobra.Command, visit func(*cobra.Command)) {
	does := !cmd.HasSubCommands() || len(flagNames(cmd)) > 0 // a group that only lists its commands has no flags
	if cmd.HasParent() && does && cmd.Name() != "help" && !cmd.Hidden {
		visit(cmd)
	}
	for _, sub := range cmd.Commands() {
		walk(sub, visit)
	}
}

// flagNames are the flags of a command as a person writes them, without --help.
func flagNames(cmd *cobra.Command) (names []string) {
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name != "help" && !f.Hidden {
			names = append(names, "--"+f.Name)
		}
	})
	return names
}

// A command line that asks for JSON gets its errors as JSON, also when another part of it is wrong.
func TestErrorsAreJSON(t *testing.T) {
	walk(newRoot(notTerminals(nil, nil)), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		for flag, args := range map[string][]string{"json": {"--json"}, "output-format": {"--output-format", "json"}} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			var out, errs bytes.Buffer
			streams := notTerminals(&out, &errs)
			if code := run(slices.Concat(path, []string{"--bogus"}, args), streams); code != exitUsage ||
				!strings.HasPrefix(out.String(), `{"error":{"code":"usage"`) {
				t.Errorf("%s --bogus %v: exit code %d, output %q, want %d and an error object", cmd.CommandPath(), args,
					code, out.String(), exitUsage)
			}
		}
	})
}
