package e2e

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/expect"
)

// gitEnv keeps git away from the configuration of the user of the tests.
var gitEnv = []string{
	"GIT_CONFIG_GLOBAL=" + os.DevNull, "GIT_CONFIG_SYSTEM=" + os.DevNull, "GIT_CONFIG_COUNT=1",
	"GIT_CONFIG_KEY_0=protocol.file.allow", "GIT_CONFIG_VALUE_0=always",
	"GIT_AUTHOR_NAME=A", "GIT_AUTHOR_EMAIL=a@example.org", "GIT_COMMITTER_NAME=A", "GIT_COMMITTER_EMAIL=a@example.org",
}

// repository makes a git repository whose files script makes and commits.
func repository(t *testing.T, script string) string {
	t.Helper()
	dir := t.TempDir()
	sh(t, dir, "git init -q -b main\n"+script+"\ngit add -A\ngit commit -q --allow-empty -m base\n")
	return dir
}

// demoProject is a repository with the project of the demo.
func demoProject(t *testing.T) string {
	t.Helper()
	project, err := filepath.Abs("../../cmd/holon/demo/project")
	expect.NoError(t, err)
	return repository(t, "cp -R '"+project+"/.' .")
}

// sh runs a shell script in dir and returns what it printed.
func sh(t *testing.T, dir, script string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-euc", script)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), gitEnv...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// snapshot describes every file beneath dir, .git included: kind and mode, when
// it was last changed, content. Git itself renews the time of an object that it
// needs again, so that it is not pruned; that does not count as a change.
func snapshot(t *testing.T, dir string) map[string]string {
	t.Helper()
	return describe(t, dir, func(path string, info fs.FileInfo) string {
		changed := info.ModTime().String()
		if strings.Contains(path, "/.git/objects/") {
			changed = "any time"
		}
		return fmt.Sprintf("%s %s %s", info.Mode(), changed, content(t, path, info))
	})
}

func describe(t *testing.T, dir string, one func(string, fs.FileInfo) string) map[string]string {
	t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		all[rel] = one(path, info)
		return err
	})
	expect.NoError(t, err)
	return all
}

func content(t *testing.T, path string, info fs.FileInfo) string {
	t.Helper()
	var data []byte
	var err error
	switch {
	case info.Mode().IsRegular():
		data, err = os.ReadFile(path)
	case info.Mode().Type() == fs.ModeSymlink:
		var target string
		target, err = os.Readlink(path)
		data = []byte(target)
	}
	expect.NoError(t, err)
	return fmt.Sprintf("%x", sha256.Sum256(data))
}
