package git

import (
	"bytes"
	"context"
	"strings"
)

// MarkedEntries lists the entries of an index that have the mark skip-worktree
// or assume-unchanged.
func MarkedEntries(ctx context.Context, g Runner) (map[string]IndexEntry, error) {
	out, err := g.Run(ctx, nil, "ls-files", "-v", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	marked := map[string]IndexEntry{}
	for line := range bytes.SplitSeq(out, []byte{0}) {
		about, path, _ := strings.Cut(string(line), "\t") // "tag mode id stage"
		fields := strings.Fields(about)
		if len(fields) == 4 && fields[0] != "H" && fields[3] == "0" {
			marked[path] = IndexEntry{Mode: fields[1], Oid: fields[2]}
		}
	}
	return marked, nil
}

// IndexEntry is one entry of an index, as git prints it.
type IndexEntry struct{ Mode, Oid string }

func EscapeWildcards(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}
