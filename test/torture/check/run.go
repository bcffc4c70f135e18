package check

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
)

// Manifest is what the checks need of manifest.json.
type Manifest struct {
	RunID     string     `json:"run_id"`
	Status    string     `json:"status"`
	Outcome   string     `json:"outcome"`
	ExitCode  int        `json:"exit_code"`
	Artifacts []Artifact `json:"artifacts"`
	Turn      *struct {
		TurnID string `json:"turn_id"`
	} `json:"turn"`
}

// Run checks the results of a run in dir: it has one end, its artifacts are what
// the manifest says, and a turn that was accepted has one end too.
func Run(dir string) (*Manifest, error) {
	data, err := os.ReadFile(filepath.Join(dir, "manifest.json"))
	if err != nil {
		return nil, fmt.Errorf("a run has no end: %w", err)
	}
	m := &Manifest{}
	if err := json.Unmarshal(data, m); err != nil {
		return nil, fmt.Errorf("manifest.json is damaged: %w", err)
	}
	if m.RunID != filepath.Base(dir) ||
		!slices.Contains([]string{"completed", "failed", "incomplete", "cancelled", "interrupted"}, m.Status) ||
		m.Outcome == "" {
		return m, fmt.Errorf("the manifest of %s is that of %s with status %q, outcome %q", filepath.Base(dir), m.RunID,
			m.Status, m.Outcome)
	}
	// Borrowed objects are no results, nor is what a run that continues this one begins with.
	known := map[string]bool{"manifest.json": true, "run.json": true, "lease": true, "objects/": true,
		"conversation/": true}
	if err := listed(dir, m.Artifacts, known); err != nil {
		return m, fmt.Errorf("%s: %w", m.RunID, err)
	}
	if m.Turn == nil {
		return m, nil
	}
	if err := errors.Join(Ended(dir), Numbered(dir), Facts(dir)); err != nil {
		return m, fmt.Errorf("%s: %w", m.RunID, err)
	}
	return m, nil
}

// Tidy checks that a state home holds nothing that belongs to a live run.
func Tidy(home string) error {
	for _, pattern := range []string{"cache/trees/*/*/claim", "runs/*/session.json", "runs/*/session", "runs/.*",
		"ipc/*", "local/*"} {
		found, err := filepath.Glob(filepath.Join(home, pattern))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("a run left %s", strings.Join(found, ", "))
		}
	}
	return nil
}

// Unchanged checks that the files under dir are those of before, a Listing.
func Unchanged(dir string, before map[string]string) error {
	after, err := Listing(dir)
	if err != nil {
		return err
	}
	if diff := cmp.Diff(before, after); diff != "" {
		return fmt.Errorf("the user's files were changed (-before +after):\n%s", diff)
	}
	return nil
}

// Listing is every file under dir with its mode and digest.
func Listing(dir string) (map[string]string, error) {
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		what := info.Mode().String()
		if info.Mode().IsRegular() {
			data, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			what += fmt.Sprintf(" %x", sha256.Sum256(data))
		}
		list[path] = what
		return nil
	})
	return list, err
}
