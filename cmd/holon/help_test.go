package main

import (
	"bytes"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"holon/test/expect"
)

// helpOf is what a command line prints that asks for help.
func helpOf(t *testing.T, args ...string) string {
	t.Helper()
	var out bytes.Buffer
	if code := run(args, notTerminals(&out, &out)); code != 0 {
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
	t.Parallel()
	everyCommand(newRoot(notTerminals(nil, nil)), func(cmd *cobra.Command, path []string) {
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

// What goes to stdout has the width of its terminal, what goes to stderr that of its own.
func TestWidths(t *testing.T) {
	var out, errs strings.Builder
	s := notTerminals(&out, &errs)
	s.OutTTY, s.ErrTTY, s.Width, s.ErrWidth = true, true, func() int { return 20 }, func() int { return 40 }
	text := strings.TrimSpace(strings.Repeat("word ", 10))
	s.say(text)
	expect.NoError(t, s.print("", "", text))
	if got := strings.Count(errs.String(), "\n"); got != 2 {
		t.Errorf("%d rows at 40 columns, want 2: %q", got, errs.String())
	}
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("%d rows at 20 columns, want 3: %q", got, out.String())
	}
}
