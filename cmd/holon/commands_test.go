package main

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/redact"
)

// commonFlags are the columns of the table: flags that mean the same in every command that has them.
var commonFlags = []string{"json", "quiet", "follow", "all", "no-header", "agent", "model", "engine", "workspace"}

// The table of commands and flags in the documentation is that of the program, and a flag has one short form in all of
// it.
func TestCommandsAreDocumented(t *testing.T) {
	const path = "../../docs/reference/commands.md"
	var b strings.Builder
	b.WriteString("# Commands and flags\n\nWritten by `go test ./cmd/holon -run TestCommandsAreDocumented " +
		"-update`. A short form stands behind its flag; `•` has none,\nas has `--all` of " +
		"`holon stop`, which ends runs, on purpose.\n\n| command | `--" +
		strings.Join(
			commonFlags,
			"` | `--",
		) + "` | others |\n|---" + strings.Repeat("|---", len(commonFlags)+1) + "|\n")
	short := map[string]string{}
	walk(newRoot(Streams{Secrets: &redact.Set{}, NoHead: new(bool)}), func(cmd *cobra.Command) {
		b.WriteString("| `" + cmd.CommandPath() + "`")
		for _, name := range commonFlags {
			b.WriteString(" | ")
			if f := cmd.Flags().Lookup(name); f != nil {
				mark := "•"
				if f.Shorthand != "" {
					mark = "`-" + f.Shorthand + "`"
				}
				b.WriteString(mark)
			}
		}
		var others []string
		cmd.Flags().VisitAll(func(f *pflag.Flag) {
			if f.Shorthand != "" && short[f.Shorthand] != "" && short[f.Shorthand] != f.Name {
				t.Errorf(
					"%s: -%s is --%s, and --%s elsewhere",
					cmd.CommandPath(),
					f.Shorthand,
					f.Name,
					short[f.Shorthand],
				)
			}
			if short[f.Shorthand] = f.Name; !f.Hidden && !slices.Contains(commonFlags, f.Name) && f.Name != "help" {
				others = append(others, "`--"+f.Name+"`")
			}
		})
		slices.Sort(others)
		b.WriteString(" | " + strings.Join(others, " ") + " |\n")
	})
	if *update {
		if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if have, err := os.ReadFile(path); err != nil || string(have) != b.String() {
		t.Errorf("%s is not what the program has (%v); write it with -update", path, err)
	}
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
	walk(newRoot(Streams{Secrets: &redact.Set{}, NoHead: new(bool)}), func(cmd *cobra.Command) {
		path := strings.Fields(cmd.CommandPath())[1:]
		for flag, args := range map[string][]string{"json": {"--json"}, "output-format": {"--output-format", "json"}} {
			if cmd.Flags().Lookup(flag) == nil {
				continue
			}
			var out, errs bytes.Buffer
			streams := Streams{Out: &out, Err: &errs, Secrets: &redact.Set{}, NoHead: new(bool)}
			if code := run(slices.Concat(path, []string{"--bogus"}, args), streams); code != exitUsage ||
				!strings.HasPrefix(out.String(), `{"error":{"code":"usage"`) {
				t.Errorf("%s --bogus %v: exit code %d, output %q, want %d and an error object", cmd.CommandPath(), args,
					code, out.String(), exitUsage)
			}
		}
	})
}
