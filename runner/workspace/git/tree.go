package git

import (
	"bytes"
	"context"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"holon/internal/folder"
)

// ReadTree lists a tree, or that of a commit, with every path checked and prefix before each.
func ReadTree(ctx context.Context, g Runner, format ObjectFormat, object, prefix string) ([]Entry, error) {
	out, err := g.Run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", object)
	if err != nil {
		return nil, err
	}
	entries, err := ParseTree(format, out, prefix)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", object, err)
	}
	return entries, nil
}

// ParseTree reads `git ls-tree -r -z`: "mode type id\tpath\0".
func ParseTree(format ObjectFormat, out []byte, prefix string) ([]Entry, error) {
	var entries []Entry
	for len(out) > 0 {
		var line []byte
		line, out, _ = bytes.Cut(out, []byte{0})
		about, path, ok := strings.Cut(string(line), "\t")
		fields := strings.Fields(about)
		if !ok || len(fields) != 3 {
			return nil, fmt.Errorf("malformed line %.100q", line)
		}
		if err := CheckPath(path); err != nil {
			return nil, err
		}
		mode, modeErr := strconv.ParseUint(fields[0], 8, 32)
		oid, oidErr := hex.DecodeString(fields[2])
		if modeErr != nil || oidErr != nil || len(oid) != format.Size() {
			return nil, fmt.Errorf("malformed line %.100q", line)
		}
		canonical, err := canonicalMode(uint32(mode))
		if err != nil {
			return nil, err
		}
		entries = append(entries, Entry{Path: folder.Join(prefix, path), Mode: canonical, Oid: string(oid)})
	}
	SortEntries(entries)
	for i := 1; i < len(entries); i++ {
		if entries[i].Path == entries[i-1].Path {
			return nil, fmt.Errorf("path %.100q occurs twice", entries[i].Path)
		}
	}
	return entries, nil
}

func canonicalMode(mode uint32) (uint32, error) {
	switch mode & 0o170000 {
	case ModeSymlink:
		return ModeSymlink, nil
	case ModeSubmodule:
		return ModeSubmodule, nil
	case 0o100000:
		if mode&0o100 != 0 {
			return modeExecutable, nil
		}
		return modeFile, nil
	}
	return 0, fmt.Errorf("unknown mode %o", mode)
}
