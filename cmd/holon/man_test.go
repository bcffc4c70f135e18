package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"holon/test/expect"
)

// Each command that the help shows has a page with its flags, and no other page is written.
func TestManPages(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	helpOf(t, "man", dir)
	entries, err := os.ReadDir(dir)
	expect.NoError(t, err)
	want := 0
	everyCommand(newRoot(notTerminals(nil, nil)), func(cmd *cobra.Command, _ []string) {
		if !cmd.IsAvailableCommand() {
			return
		}
		want++
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-")
		page, err := os.ReadFile(filepath.Join(dir, name+".1"))
		if err != nil {
			t.Error(err)
			return
		}
		for _, text := range append(flagNames(cmd), cmd.Short) {
			if !strings.Contains(string(page), text) {
				t.Errorf("%s says nothing of %s", cmd.CommandPath(), text)
			}
		}
	})
	if len(entries) != want {
		t.Errorf("%d pages are written, want %d", len(entries), want)
	}
}
