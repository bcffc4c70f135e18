package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds on submodules of submodules.
const (
	maxSubmodules     = 2000
	maxSubmoduleDepth = 8
)

// loadEntries makes the record's entries those of the base tree, keeping the
// stat data of every entry that stays the same. Listing a tree costs a
// process, so it happens only when the base is another than last time.
func (t *Tree) loadEntries(ctx context.Context, tree string) error {
	old := t.record
	t.record = &record{format: old.format, header: old.header, dirs: old.dirs}
	own, modules := splitModules(old.entries)
	if old.header.Tree != tree || !old.header.Complete {
		listed, err := t.listTree(ctx, tree, "")
		if err != nil {
			return fmt.Errorf("list base: %w", err)
		}
		own = adopt(own, listed)
	}
	modules, err := t.loadSubmodules(ctx, own, modules)
	if err != nil {
		return err
	}
	t.record.header.Tree, t.record.header.Complete = tree, true
	if old.header.Tree != tree || old.header.Modules != t.record.header.Modules {
		// In the past, so that git in the tree, which compares whole seconds, sees
		// that the index is younger than the files and need not read them.
		t.record.header.Since = time.Now().Add(-2 * time.Second).Truncate(time.Second).UnixNano()
	}
	t.record.entries = own
	if len(modules) > 0 {
		t.record.entries = append(own[:len(own):len(own)], modules...)
		sortEntries(t.record.entries)
	}
	return nil
}

// listTree lists a tree or commit with every path checked, prefix before each.
func (t *Tree) listTree(ctx context.Context, object, prefix string) ([]entry, error) {
	if object == t.source.format.emptyTree() {
		return nil, nil
	}
	out, err := t.base.git().run(ctx, nil, "ls-tree", "-r", "-z", "--full-tree", object)
	if err != nil {
		return nil, err
	}
	entries, err := parseTree(t.source.format, out, prefix)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", object, err)
	}
	return entries, nil
}

// parseTree reads `git ls-tree -r -z`: "mode type id\tpath\0".
func parseTree(format objectFormat, out []byte, prefix string) ([]entry, error) {
	var entries []entry
	for len(out) > 0 {
		var line []byte
		line, out, _ = bytes.Cut(out, []byte{0})
		about, path, ok := strings.Cut(string(line), "\t")
		fields := strings.Fields(about)
		if !ok || len(fields) != 3 {
			return nil, fmt.Errorf("malformed line %.100q", line)
		}
		if err := checkPath(path); err != nil {
			return nil, err
		}
		mode, modeErr := strconv.ParseUint(fields[0], 8, 32)
		oid, oidErr := hex.DecodeString(fields[2])
		if modeErr != nil || oidErr != nil || len(oid) != format.size() {
			return nil, fmt.Errorf("malformed line %.100q", line)
		}
		canonical, err := canonicalMode(uint32(mode))
		if err != nil {
			return nil, err
		}
		entries = append(entries, entry{path: joinPath(prefix, path), mode: canonical, oid: string(oid)})
	}
	sortEntries(entries)
	for i := 1; i < len(entries); i++ {
		if entries[i].path == entries[i-1].path {
			return nil, fmt.Errorf("path %.100q occurs twice", entries[i].path)
		}
	}
	return entries, nil
}

func canonicalMode(mode uint32) (uint32, error) {
	switch mode & 0o170000 {
	case modeSymlink:
		return modeSymlink, nil
	case modeSubmodule:
		return modeSubmodule, nil
	case 0o100000:
		if mode&0o100 != 0 {
			return modeExecutable, nil
		}
		return modeFile, nil
	}
	return 0, fmt.Errorf("unknown mode %o", mode)
}

// adopt gives listed entries the stat data of old ones with the same content.
// Both are sorted by path.
func adopt(old, listed []entry) []entry {
	i := 0
	for k := range listed {
		for i < len(old) && old[i].path < listed[k].path {
			i++
		}
		if i < len(old) && old[i].path == listed[k].path && old[i].mode == listed[k].mode &&
			old[i].oid == listed[k].oid {
			listed[k].stat = old[i].stat
		}
	}
	return listed
}

// loadSubmodules finds the files of the submodules that the user initialised,
// lets the base borrow their objects, and returns their entries. Submodules
// whose objects aren't at hand stay empty directories.
func (t *Tree) loadSubmodules(ctx context.Context, own, known []entry) ([]entry, error) {
	links := submodulesOf(own)
	if len(links) == 0 || t.source.info.Kind != KindGit {
		t.record.header.Modules = ""
		return nil, nil
	}
	// Borrow from all first: the key says whether the known entries still hold.
	all := append(links, submodulesOf(known)...)
	key := t.borrowSubmodules(all)
	if key == t.record.header.Modules {
		t.describeSubmodules(all, known)
		return known, nil
	}
	var modules []entry
	for level := 0; len(links) > 0 && level < maxSubmoduleDepth; level++ {
		t.borrowSubmodules(links)
		var next []entry
		for _, link := range links {
			listed, err := t.listTree(ctx, hex.EncodeToString([]byte(link.oid)), link.path)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err != nil {
				continue // not at hand
			}
			for i := range listed {
				listed[i].module = true
			}
			modules = append(modules, listed...)
			next = append(next, submodulesOf(listed)...)
		}
		links = next
	}
	sortEntries(modules)
	all = append(submodulesOf(own), submodulesOf(modules)...)
	if len(all) > maxSubmodules {
		return nil, &Error{Code: CodeTooLarge,
			Message: fmt.Sprintf("the repository has more than %d submodules", maxSubmodules)}
	}
	t.record.header.Modules = t.borrowSubmodules(all)
	t.describeSubmodules(all, modules)
	return adopt(known, modules), nil
}

func submodulesOf(entries []entry) []entry {
	var links []entry
	for _, e := range entries {
		if e.mode == modeSubmodule {
			links = append(links, e)
		}
	}
	return links
}

// borrowSubmodules adds the submodules' object directories to the base's
// alternates and returns a digest of where each submodule comes from.
func (t *Tree) borrowSubmodules(links []entry) string {
	hash := sha256.New()
	for _, link := range links {
		objects := ""
		if layout := t.source.user.submodule(link.path); layout != nil {
			objects = layout.objects
		}
		fmt.Fprintf(hash, "%q %x %q\n", link.path, link.oid, objects)
		if objects != "" && !slices.Contains(t.base.alternates, objects) {
			t.base.alternates = append(t.base.alternates, objects)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func (t *Tree) describeSubmodules(links, modules []entry) {
	t.info.Submodules = nil
	for _, link := range links {
		within := func(e entry) bool { return strings.HasPrefix(e.path, link.path+"/") }
		t.info.Submodules = append(t.info.Submodules, Submodule{Path: link.path,
			Commit: hex.EncodeToString([]byte(link.oid)), Populated: slices.ContainsFunc(modules, within)})
	}
}
