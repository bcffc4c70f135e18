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

// What goes to stdout has the width of its terminal, what goes to stderr that of its own.
func TestWidths(t *testing.T) {
	var out, errs strings.Builder
	s := Streams{Out: &out, Err: &errs, OutTTY: true, ErrTTY: true, Width: func() int { return 20 },
		ErrWidth: func() int { return 40 }}
	text := strings.TrimSpace(strings.Repeat("word ", 10))
	s.say(text)
	if err := s.print("", "", text); err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(errs.String(), "\n"); got != 2 {
		t.Errorf("%d rows at 40 columns, want 2: %q", got, errs.String())
	}
	if got := strings.Count(out.String(), "\n"); got != 3 {
		t.Errorf("%d rows at 20 columns, want 3: %q", got, out.String())
	}
}

// A cell is cut at columns, a fact and a remedy are shown whole.
func TestWhatIsCut(t *testing.T) {
	long := strings.Repeat("日", 600)
	var out strings.Builder
	s := Streams{Out: &out, OutTTY: true, Width: func() int { return 80 }}
	list := newTable(s, "TASK", "RUN")
	list.row(long, "run_1")
	if err := list.end(); err != nil {
		t.Fatal(err)
	}
	if want := strings.Repeat("日", 149) + "…"; !strings.Contains(out.String(), want+"\n") {
		t.Errorf("a cell is %q, want %q", out.String(), want)
	}
	out.Reset()
	if err := facts(s, [2]string{"reason", long}); err != nil || !strings.Contains(out.String(), long) {
		t.Errorf("a fact is %q (%v), want all of it", out.String(), err)
	}
	if got := line(state.Failure{Message: "wrong", Hint: long}); got != "wrong; "+long {
		t.Errorf("line = %q, want the whole hint", got)
	}
}

// What is long is wrapped at words on a terminal, and one line elsewhere.
func TestOutputWraps(t *testing.T) {
	long := strings.Repeat("something ", 12) + "is wrong"
	for name, tc := range map[string]struct {
		show func(Streams) error
		want string // but for how much space is between words
	}{
		"a line": {func(s Streams) error { return s.print("blocked: ", "  ", long) }, "blocked: " + long},
		"facts":  {func(s Streams) error { return facts(s, [2]string{"outcome", long}) }, "outcome " + long},
		"facts with a long path": {func(s Streams) error {
			return facts(s, [2]string{"outcome", long}, [2]string{"results", strings.Repeat("/x", 10)})
		}, "outcome " + long + " results " + strings.Repeat("/x", 10)},
		"cells": {func(s Streams) error { return printRow(s, "a", long) }, "a " + long},
		"records": {func(s Streams) error {
			s.Err = s.Out
			p := newProgress(s, false)
			p.wraps = s.OutTTY
			p.println("  " + long)
			return nil
		}, long},
		"messages": {func(s Streams) error {
			s.Err, s.NoColor, s.Secrets = s.Out, true, &redact.Set{}
			newProgress(s, false).commentary(long)
			return nil
		}, long},
	} {
		for _, tty := range []bool{true, false} {
			var out strings.Builder
			if err := tc.show(Streams{Out: &out, OutTTY: tty, Width: func() int { return 40 }}); err != nil {
				t.Fatal(err)
			}
			text := strings.Trim(out.String(), "\n")
			for _, row := range strings.Split(text, "\n") {
				if tty && cells(row) > 40 {
					t.Errorf("%s: %q has more than 40 columns", name, row)
				}
			}
			if got := strings.Join(strings.Fields(text), " "); got != tc.want {
				t.Errorf("%s, terminal %v: %q, want %q", name, tty, got, tc.want)
			}
			if !tty && strings.Contains(strings.TrimSpace(text), long+"\n") && name != "facts with a long path" || tty &&
				!strings.Contains(text, "\n") {
				t.Errorf("%s, terminal %v: %q", name, tty, text)
			}
		}
	}
}

// A table is as wide as the terminal: a wide column is wrapped, and what has no room stands on a line below.
func TestTableFolds(t *testing.T) {
	for width, want := range map[int]string{
		31: "KEY    VALUE            SOURCE\nimage  if it has a key  default\n",
		25: "KEY    VALUE      SOURCE\nimage  if it has  default\n       a key\n",
		15: "KEY\n    VALUE\n    SOURCE\nimage\n    if it has a\n    key\n    default\n",
	} {
		var out strings.Builder
		table := newTable(Streams{Out: &out, OutTTY: true, Width: func() int { return width }}, "KEY", "VALUE", "SOURCE")
		table.row("image", "if it has a key", "default")
		if err := table.end(); err != nil || out.String() != want {
			t.Errorf("in %d columns: %q (%v), want %q", width, out.String(), err, want)
		}
	}
}
