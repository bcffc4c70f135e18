package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"holon/internal/redact"
	"holon/state"
)

// helpOf is what a command line prints that asks for help.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := run(args, Streams{Out: &out, Err: &out, Secrets: &redact.Set{}, NoHead: new(bool)}); code != 0 {
		t.Fatalf("holon %s: exit code %d\n%s", strings.Join(args, " "), code, out.String())
	}
	return out.String()
}

// everyCommand visits the root and all commands below it.
func everyCommand(cmd *cobra.Command, visit func(*cobra.Command, []string)) {
	visit(cmd, strings.Fields(cmd.CommandPath())[1:])
	for _, sub := range cmd.Commands() {
		everyCommand(sub, visit)
	}
}

// Help fits a screen, and all of it fits its width and leaves no flag out.
func TestHelpFits(t *testing.T) {
	everyCommand(newRoot(Streams{Secrets: &redact.Set{}, NoHead: new(bool)}), func(cmd *cobra.Command, path []string) {
		t.Run(strings.Join(path, " "), func(t *testing.T) {
			short, all := helpOf(t, append(path, "--help")...), helpOf(t, append([]string{"help"}, path...)...)
			if lines := strings.Count(short, "\n"); lines > helpLines {
				t.Errorf("--help has %d lines, want at most %d:\n%s", lines, helpLines, short)
			}
			for line := range strings.Lines(short + all) {
				if utf8.RuneCountInString(strings.TrimSuffix(line, "\n")) > helpColumns || strings.HasSuffix(line, " \n") {
					t.Errorf("a line is too long or ends with a space: %q", line)
				}
			}
			for _, name := range flagNames(cmd) {
				if !strings.Contains(short, name) || !strings.Contains(all, name) {
					t.Errorf("--help or help says nothing of %s", name)
				}
			}
			for _, sub := range cmd.Commands() {
				if sub.IsAvailableCommand() && (!strings.Contains(short, sub.Name()) || !strings.Contains(all, sub.Short)) {
					t.Errorf("--help or help says nothing of %s", sub.Name())
				}
			}
		})
	})
}

func TestReflow(t *testing.T) {
	long := strings.Repeat("seven77 ", 11) // 88 columns
	for name, tc := range map[string]struct{ text, want string }{
		"a paragraph":    {"a\nb", "a b\n"},
		"two":            {"a\n\nb", "a\n\nb\n"},
		"indented":       {"a\n  b\n  c\nd", "a\n  b\n  c\nd\n"},
		"a long line":    {long, strings.TrimSpace(long[:80]) + "\nseven77\n"},
		"indented, long": {"  " + long, "  " + strings.TrimSpace(long[:72]) + "\n  seven77 seven77\n"},
		"a long word":    {strings.Repeat("x", 90), strings.Repeat("x", 90) + "\n"},
	} {
		if got := reflow(tc.text); got != tc.want {
			t.Errorf("%s: got %q, want %q", name, got, tc.want)
		}
	}
}

// Flags stand before arguments in every usage line.
func TestUsageLines(t *testing.T) {
	root := newRoot(Streams{})
	for _, path := range []string{"config set", "queue remove", "run", "agent model set"} {
		cmd, _, err := root.Find(strings.Fields(path))
		if err != nil {
			t.Fatal(err)
		}
		if got, want := useLine(cmd), "holon "+path+" [flags] "; !strings.HasPrefix(got, want) {
			t.Errorf("%q does not begin with %q", got, want)
		}
	}
}

// An error is wrapped at words on a terminal, and one line elsewhere.
func TestFailureWraps(t *testing.T) {
	f := state.Failure{Param: "--model", Message: strings.Repeat("something ", 12) + "is wrong", Hint: "choose another"}
	for _, tty := range []bool{true, false} {
		var out strings.Builder
		Streams{Err: &out, ErrTTY: tty, Width: func() int { return 40 }}.sayFailure(f)
		text := strings.TrimSpace(out.String())
		for _, row := range strings.Split(text, "\n") {
			if tty && cells(row) > 40 {
				t.Errorf("%q has more than 40 columns", row)
			}
		}
		if got, want := strings.Join(strings.Fields(text), " "), "holon: "+line(f); got != want {
			t.Errorf("terminal %v: %q, want %q", tty, got, want)
		}
		if strings.Contains(text, "\n") != tty {
			t.Errorf("terminal %v: %q", tty, text)
		}
	}
}
