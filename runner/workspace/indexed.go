package workspace

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

// markedEntries lists the entries of an index that have the mark skip-worktree
// or assume-unchanged.
func markedEntries(ctx context.Context, g git) (map[string]indexed, error) {
	out, err := g.run(ctx, nil, "ls-files", "-v", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	marked := map[string]indexed{}
	for line := range bytes.SplitSeq(out, []byte{0}) {
		about, path, _ := strings.Cut(string(line), "\t") // "tag mode id stage"
		fields := strings.Fields(about)
		if len(fields) == 4 && fields[0] != "H" && fields[3] == "0" {
			marked[path] = indexed{mode: fields[1], oid: fields[2]}
		}
	}
	return marked, nil
}

// indexed is one entry of an index, as git prints it.
type indexed struct{ mode, oid string }

// entries reads an index of ours, as far as the patch is concerned.
func (m *merge) entries(ctx context.Context, index string) (map[string]indexed, error) {
	out, err := m.repo.git().with("GIT_INDEX_FILE="+index).run(ctx, nil, "ls-files", "--stage", "-z")
	if err != nil {
		return nil, err
	}
	entries := map[string]indexed{}
	for line := range bytes.SplitSeq(bytes.TrimSuffix(out, []byte{0}), []byte{0}) {
		about, path, ok := strings.Cut(string(line), "\t") // "mode id stage"
		fields := strings.Fields(about)
		if !ok || len(fields) != 3 {
			continue // an empty index
		}
		if _, concerned := slices.BinarySearch(m.names, path); !concerned {
			continue
		}
		if fields[2] != "0" {
			return nil, m.conflict([]string{path}, nil)
		}
		entries[path] = indexed{mode: fields[0], oid: fields[1]}
	}
	return entries, nil
}
