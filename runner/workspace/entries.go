package workspace

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/runner/workspace/git"
)

// loadEntries replaces the record's entries by those of the base tree and keeps the stat data of every unchanged entry.
// Listing a tree needs a process, so it happens only if the base differs from the last one.
func (t *Tree) loadEntries(ctx context.Context, tree string) error {
	old := t.record
	t.record = &record{format: old.format, header: old.header, sinceBoot: old.sinceBoot, dirs: old.dirs}
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
		git.SortEntries(t.record.entries)
	}
	return nil
}

// listTree lists a tree or commit with every path checked, prefix before each.
func (t *Tree) listTree(ctx context.Context, object, prefix string) ([]git.Entry, error) {
	if object == t.source.format.EmptyTree() {
		return nil, nil
	}
	return git.ReadTree(ctx, t.base.Git(), t.source.format, object, prefix)
}

// adopt copies the stat data of old entries to listed ones with the same content. Both are sorted by path.
func adopt(old, listed []git.Entry) []git.Entry {
	i := 0
	for k := range listed {
		for i < len(old) && old[i].Path < listed[k].Path {
			i++
		}
		if i < len(old) && old[i].Path == listed[k].Path && old[i].Mode == listed[k].Mode &&
			old[i].Oid == listed[k].Oid {
			listed[k].Stat = old[i].Stat
		}
	}
	return listed
}

// loadSubmodules returns the entries of the submodules that the user initialised and makes the base borrow
// their objects. A submodule stays an empty directory if its objects are missing.
func (t *Tree) loadSubmodules(ctx context.Context, own, known []git.Entry) ([]git.Entry, error) {
	links := submodulesOf(own)
	if len(links) == 0 || t.source.info.Kind != KindGit {
		t.record.header.Modules = ""
		return nil, nil
	}
	// Borrow from all first: the key tells whether the known entries are still valid.
	all := append(links, submodulesOf(known)...)
	key := t.borrowSubmodules(all)
	if key == t.record.header.Modules {
		t.describeSubmodules(all, known)
		return known, nil
	}
	var modules []git.Entry
	for level := 0; len(links) > 0 && level < git.MaxSubmoduleDepth; level++ {
		t.borrowSubmodules(links)
		var next []git.Entry
		for _, link := range links {
			tree := cmp.Or(t.begun[link.Path], t.bases[link.Path], hex.EncodeToString([]byte(link.Oid)))
			listed, err := t.listTree(ctx, tree, link.Path)
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			if err != nil {
				continue // the objects are missing
			}
			for i := range listed {
				listed[i].Module = true
			}
			modules = append(modules, listed...)
			next = append(next, submodulesOf(listed)...)
		}
		links = next
	}
	git.SortEntries(modules)
	all = append(submodulesOf(own), submodulesOf(modules)...)
	if len(all) > git.MaxSubmodules {
		return nil, &git.Error{Code: git.CodeTooLarge,
			Message: fmt.Sprintf("the repository has more than %d submodules", git.MaxSubmodules)}
	}
	t.record.header.Modules = t.borrowSubmodules(all)
	t.describeSubmodules(all, modules)
	return adopt(known, modules), nil
}

func submodulesOf(entries []git.Entry) []git.Entry {
	return slices.DeleteFunc(slices.Clone(entries), func(e git.Entry) bool { return e.Mode != git.ModeSubmodule })
}

// borrowSubmodules adds the submodules' object directories to the base's
// alternates and returns a digest of where each submodule comes from.
func (t *Tree) borrowSubmodules(links []git.Entry) string {
	hash := sha256.New()
	for _, link := range links {
		objects := ""
		if t.source.user.Top != "" {
			if layout := t.source.user.Submodule(link.Path); layout != nil {
				objects = layout.Objects
			}
		}
		fmt.Fprintf(hash, "%q %x %q %s\n", link.Path, link.Oid, objects, cmp.Or(t.begun[link.Path], t.bases[link.Path]))
		if objects != "" && !slices.Contains(t.base.Alternates, objects) {
			t.base.Alternates = append(t.base.Alternates, objects)
		}
	}
	return hex.EncodeToString(hash.Sum(nil))
}

func (t *Tree) describeSubmodules(links, modules []git.Entry) {
	t.info.Submodules = nil
	for _, link := range links {
		within := func(e git.Entry) bool { return strings.HasPrefix(e.Path, link.Path+"/") }
		base := t.bases[link.Path]
		t.info.Submodules = append(t.info.Submodules, submodule{Path: link.Path, BaseTree: base,
			Commit:    hex.EncodeToString([]byte(link.Oid)),
			Populated: base != "" || slices.ContainsFunc(modules, within)})
	}
}
