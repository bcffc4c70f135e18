package home

import (
	"context"
	"embed"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/roots"
)

// Built-in templates.
const (
	Default   = "holon-default"
	developer = "holon-developer"
	Child     = "holon-child" // of private children; not for users, who may have one of that name
)

//go:embed builtin
var builtinFiles embed.FS

func builtinText(id string) ([]byte, bool) {
	text, err := builtinFiles.ReadFile("builtin/" + id + "/" + agentsFile)
	return text, err == nil
}

// managedFile says, in a seeded template, as what holon left it.
const managedFile = ".holon.json"

type managed struct {
	Schema string `json:"schema"`
	Digest string `json:"digest"` // of the template when holon wrote it
}

const managedSchema = "holon.managed_template/1"

// Seed copies the built-in templates to the user's templates, by id, and updates those
// that are unchanged since holon wrote them. Changed templates are never overwritten.
func (h *Homes) Seed(ctx context.Context) error {
	if h.opts.Templates == "" {
		return nil
	}
	if err := os.MkdirAll(h.opts.Templates, 0o755); err != nil {
		return fmt.Errorf("make the directory of templates: %w", err)
	}
	var errs []error
	for _, id := range []string{Default, developer} {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := h.seed(id); err != nil {
			errs = append(errs, fmt.Errorf("seed the template %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// seed brings one template up to date. It is replaced as a whole, so a crash
// leaves the old one or the new one.
func (h *Homes) seed(id string) error {
	text, _ := builtinText(id)
	want := &template{agents: text}
	final := filepath.Join(h.opts.Templates, id)
	found, err := present(final)
	if err != nil || found.exists && (!found.ours || found.digest == want.digest()) {
		return err
	}
	made, err := os.MkdirTemp(h.opts.Templates, newPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(made) // what is there is in the making, or was replaced
	note, err := json.Marshal(managed{managedSchema, want.digest()})
	if err == nil {
		err = errors.Join(os.Chmod(made, 0o755), durable.WriteFile(filepath.Join(made, agentsFile), text, 0o644),
			durable.WriteFile(filepath.Join(made, managedFile), append(note, '\n'), 0o644))
	}
	if err != nil {
		return err
	}
	if found.exists {
		err = folder.Swap(made, final)
	} else {
		err = folder.RenameNew(unix.AT_FDCWD, made, unix.AT_FDCWD, final)
	}
	if errors.Is(err, fs.ErrExist) { // another holon was faster
		return nil
	}
	if err != nil {
		return err
	}
	return durable.SyncDir(h.opts.Templates)
}

// found says what has the name of a built-in template.
type found struct {
	exists bool
	ours   bool   // it is exactly as holon left it
	digest string // then
}

// present inspects the entry with the name of a template. An entry that differs from
// what holon writes belongs to the user.
func present(dir string) (found, error) {
	if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
		return found{}, nil
	} else if err != nil {
		return found{}, err
	}
	theirs := found{exists: true}
	if info, err := os.Lstat(dir); err != nil || !info.IsDir() {
		return theirs, nil
	}
	root, err := roots.Open(dir)
	if err != nil {
		return theirs, nil
	}
	defer root.Close()
	entries, err := fs.ReadDir(root.FS(), ".")
	if err != nil || len(entries) != 2 {
		return theirs, nil
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			return theirs, nil
		}
	}
	text, err := readFile(root, agentsFile, maxInstructions)
	note, noteErr := readFile(root, managedFile, maxManifest)
	var left managed
	if errors.Join(err, noteErr) != nil || json.Unmarshal(note, &left) != nil || left.Schema != managedSchema {
		return theirs, nil
	}
	digest := (&template{agents: text}).digest()
	return found{exists: true, ours: digest == left.Digest, digest: digest}, nil
}
