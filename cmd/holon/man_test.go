package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holon/internal/redact"
)

// Each command that the help shows has a page that says the same, and no other page is written. Where the system has a
// formatter it reads the pages without a complaint; else the structure alone is looked at, which it always is.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helpOf(t, "man", dir)
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	want := 0
	everyCommand(newRoot(Streams{Secrets: &redact.Set{}, NoHead: new(bool)}), func(cmd *cobra.Command, _ []string) {
		if cmd.Hidden {
			return
		}
		want++
		page, err := os.ReadFile(filepath.Join(dir, manName(cmd)+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		checkManPage(t, cmd, string(page))
	})
	if len(entries) != want {
		t.Errorf("%d pages are written, want %d", len(entries), want)
	}
	formatManPages(t, dir)
}

// checkManPage looks for the sections in their order, for each flag and example, and for lines that the formatter would
// take for a command that is none of ours.
func checkManPage(t *testing.T, cmd *cobra.Command, page string) {
	t.Helper()
	at := 0
	for _, section := range []string{".TH ", ".SH NAME\n", ".SH SYNOPSIS\n", ".SH DESCRIPTION\n", ".SH SEE ALSO\n"} {
		next := strings.Index(page[at:], section)
		if next < 0 {
			t.Errorf("%s: %q is missing or out of order", manName(cmd), section)
			return
		}
		at += next
	}
	for _, name := range flagNames(cmd) {
		if !strings.Contains(page, roff(name)) {
			t.Errorf("%s says nothing of %s", manName(cmd), name)
		}
	}
	if !strings.Contains(page, roff(cmd.Example)) || !strings.Contains(page, roff(cmd.Short)) {
		t.Errorf("%s lacks the examples or the first line", manName(cmd))
	}
	ours := " .TH .SH .B .BR .PP .TP .nf .fi "
	for line := range strings.Lines(page) {
		first, _, _ := strings.Cut(strings.TrimSpace(line), " ")
		if line == "\n" || strings.HasPrefix(line, "'") ||
			strings.HasPrefix(line, ".") && !strings.Contains(ours, " "+first+" ") {
			t.Errorf("%s: %q is no text", manName(cmd), line)
		}
	}
}

func formatManPages(t *testing.T, dir string) {
	t.Helper()
	pages, err := filepath.Glob(filepath.Join(dir, "*.1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, formatter := range [][]string{{"mandoc", "-T", "lint", "-W", "warning"},
		{"groff", "-Kutf8", "-man", "-Tutf8", "-ww", "-z"}} {
		if _, err := exec.LookPath(formatter[0]); err != nil {
			t.Logf("%s is not installed", formatter[0])
			continue
		}
		if said, err := exec.Command(formatter[0], append(formatter[1:], pages...)...).CombinedOutput(); err != nil ||
			len(said) > 0 {
			t.Errorf("%s: %v\n%.2000s", formatter[0], err, said)
		}
	}
}

// Text that looks like a command of the formatter is text.
func TestRoff(t *testing.T) {
	for text, want := range map[string]string{
		".holon/config.yaml": `\&.holon/config.yaml`, "'a'\n'b'": "\\&'a'\n\\&'b'", `a\b --c`: `a\eb \-\-c`,
	} {
		if got := roff(text); got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}
