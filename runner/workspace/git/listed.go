package git

import (
	"bytes"
	"context"
	"strings"
)

// IndexEntry is one entry of an index, as git prints it.
type IndexEntry struct{ Mode, Oid string }

// indexLine is an entry with its place in an index.
type indexLine struct {
	IndexEntry
	Path     string
	Unmerged bool
	Marked   bool // skip-worktree or assume-unchanged
}

// ReadIndex lists the entries of an index.
func ReadIndex(ctx context.Context, g Runner) (lines []indexLine, err error) {
	out, err := g.Run(ctx, nil, "ls-files", "-v", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	for line := range bytes.SplitSeq(out, []byte{0}) {
		about, path, _ := strings.Cut(string(line), "\t") // "tag mode id stage"
		if fields := strings.Fields(about); len(fields) == 4 {
			lines = append(lines, indexLine{IndexEntry{fields[1], fields[2]}, path, fields[3] != "0", fields[0] != "H"})
		}
	}
	return lines, nil
}

func EscapeWildcards(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
