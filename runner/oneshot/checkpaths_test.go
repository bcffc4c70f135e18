package oneshot

import (
	"slices"
	"strings"
	"testing"

	"holon/state"
	"holon/test/expect"
)

// What decides what a check looks at is as in the base: tests that were changed or removed, all that defines a runner,
// and a program of the command whose name says that it checks. What may decide it among other things is listed.
func TestPathsSplit(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		change, command, patterns string
		restored, changed, named  string
	}{
		{change: "M a/b_test.go", restored: "a/b_test.go"},
		{change: "A a/b_test.go"},
		{change: "D tests/x/data.json", restored: "tests/x/data.json"},
		{change: "M mod/src/test/java/A.java", restored: "mod/src/test/java/A.java"},
		{change: "M src/testing/A.java"},
		{change: "M web/a.test.tsx", restored: "web/a.test.tsx"},
		{change: "M web/a.spec.ts", restored: "web/a.spec.ts"},
		{change: "M pkg/__tests__/a.js", restored: "pkg/__tests__/a.js"},
		{change: "M latest_tests.go"},
		{change: "M test_a.py", restored: "test_a.py"},
		{change: "M test.sh", restored: "test.sh"},
		{change: "R a_test.go b_test.go", restored: "b_test.go a_test.go"},
		{change: "R a.go a_test.go"},
		{change: "T x/testdata/golden", restored: "x/testdata/golden"},
		{change: "A conftest.py", restored: "conftest.py"},
		{change: "A sub/Makefile", restored: "sub/Makefile"},
		{change: "M jest.config.mjs", restored: "jest.config.mjs"},
		{change: "M package.json", changed: "package.json"},
		{change: "D go.mod", changed: "go.mod"},
		{change: "A .npmrc", restored: ".npmrc"},
		{change: "A .cargo/config.toml", restored: ".cargo/config.toml"},
		{change: "M .cargo/deny.toml", changed: ".cargo/deny.toml"},
		{change: "M web/.mvn/wrapper/x.properties", restored: "web/.mvn/wrapper/x.properties"},
		{change: "A .config/nextest.toml", restored: ".config/nextest.toml"},
		{change: "M gradle.properties", changed: "gradle.properties"},
		{change: "A sub/sitecustomize.py", restored: "sub/sitecustomize.py"},
		{change: "A unittest/__init__.py", restored: "unittest/__init__.py"},
		{change: "A in/sub/pytest/x.py", restored: "in/sub/pytest/x.py"},
		{change: "A src/unittest/a.py"},
		{change: "A argparse.py", restored: "argparse.py"},
		{change: "M queue.so", restored: "queue.so"},
		{change: "A signal.abi3.so", restored: "signal.abi3.so"},
		{change: "A email/__init__.py", restored: "email/__init__.py"},
		{change: "A cmd/main.py"},
		{change: "A app/types.py"},
		{change: "A in/sub/difflib.py", restored: "in/sub/difflib.py"},
		{change: "A pluggy.py", command: "python -m pytest", restored: "pluggy.py"},
		{change: "A src/json.py", command: "PYTHONPATH=src python -m unittest", restored: "src/json.py"},
		{change: "A src/json.py", command: "cd src && python -m unittest", restored: "src/json.py"},
		{change: "A tools/json.py", command: "python tools/ci.py", restored: "tools/json.py"},
		{change: "A -> json", restored: "json"},
		{change: "A json"},
		{change: "A tests/__pycache__/test_a.cpython-312.pyc", restored: "tests/__pycache__/test_a.cpython-312.pyc"},
		{change: "A evil.dist-info/entry_points.txt", restored: "evil.dist-info/entry_points.txt"},
		{change: "A node_modules/.bin/jest", restored: "node_modules/.bin/jest"},
		{change: "A web/node_modules/jest/cli.js", command: "npm --prefix web test",
			restored: "web/node_modules/jest/cli.js"},
		{change: "A tests/fixture/node_modules/a.js"},
		{change: "A Makefile.local", restored: "Makefile.local"},
		{change: "A .yarnrc.yml", restored: ".yarnrc.yml"},
		{change: "A -> .cargo", restored: ".cargo"},
		{change: "A rust-toolchain", restored: "rust-toolchain"},
		{change: "A lib/minitest/x_plugin.rb", restored: "lib/minitest/x_plugin.rb"},
		{change: "A buildSrc/src/A.java", changed: "buildSrc/src/A.java"},
		{change: "M check.sh", command: "./check.sh && true", restored: "check.sh"},
		{change: "M scripts/ci/run-checks", command: "sh 'scripts/ci/run-checks' -v", restored: "scripts/ci/run-checks"},
		{change: "M greet.sh", command: "./greet.sh | grep -q hello", changed: "greet.sh", named: "greet.sh"},
		{change: "D run.sh", command: "sh run.sh", changed: "run.sh", named: "run.sh"},
		{change: "R run.sh x.sh", command: "sh run.sh", changed: "run.sh", named: "run.sh"},
		{change: "R x.sh run.sh", command: "sh run.sh", changed: "run.sh"},
		{change: "M scripts/ci", command: "cd scripts && sh ci", changed: "scripts/ci", named: "scripts/ci"},
		{change: "M scripts/ci", command: "(cd a; cd ../scripts; sh ./ci)", changed: "scripts/ci", named: "scripts/ci"},
		{change: "M scripts/ci", command: "sh $PWD/scripts/ci", changed: "scripts/ci", named: "scripts/ci"},
		{change: "M scripts/ci", command: "for f in scripts/*; do sh $f; done", changed: "scripts/ci", named: "scripts/ci"},
		{change: "M a/scripts/ci", command: "for f in *; do sh $f; done"},
		{change: "M scripts/check", command: "cd scripts && sh check", restored: "scripts/check"},
		{change: "M in/sub/tools/ci.py", command: "python -m tools.ci", changed: "in/sub/tools/ci.py",
			named: "in/sub/tools/ci.py"},
		{change: "M app/__main__.py", command: "python -m app", changed: "app/__main__.py", named: "app/__main__.py"},
		{change: "M other/__main__.py", command: "python -m app"},
		{change: "M app.py", command: "python app.py", changed: "app.py", named: "app.py"},
		{change: "M value.txt", command: "! grep -q wrong value.txt && test -s value.txt"},
		{change: "M value.sh", command: "grep -q x $(sh value.sh)", changed: "value.sh", named: "value.sh"},
		{change: "M go.sh", command: "cat go.sh | sh", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "cat go.sh | grep -v x |\n sh", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "(cat go.sh) | (test -e x; sh)", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "cat go.sh >x; sh x", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: `sh -c "$(cat go.sh)"`, changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "eval `cat go.sh`", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "sh <(cat go.sh)", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: `sh -c 'true; cat go.sh | sh'`, changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: `sh g'o'.sh`, changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: `sh "g"\o.sh`, changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "F=go; sh $F.sh", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "F='a $F'; sh \"$F\" go.sh", changed: "go.sh", named: "go.sh"},
		{change: "M go.sh", command: "sh <go.sh", changed: "go.sh", named: "go.sh"},
		{change: "M value.txt", command: "cat value.txt | grep -qE 'a|b$' 2>&1 >/dev/null || { cat value.txt; exit 1; }"},
		{change: "M value.txt", command: "./go.sh | diff - value.txt"},
		{change: "M build.sh", command: "./build.sh && ./app", changed: "build.sh", named: "build.sh"},
		{change: "A app", command: "./build.sh && ./app", changed: "app"},
		{change: "M main.go", command: "go test ./..."},
		{change: "M package.json", command: "npm test", changed: "package.json"},
		{change: "M run.sh", command: "sh run.sh", patterns: "*.md"},
		{change: "M setup.py", command: "python setup.py test", changed: "setup.py", named: "setup.py"},
		{change: "A check.sh", command: "./check.sh", changed: "check.sh"},
		{change: "M in/sub/verify", command: "./verify", restored: "in/sub/verify"},
		{change: "M verify", command: "../../verify", restored: "verify"},
		{change: "M a_test.go", patterns: "*.md"},
		{change: "A docs/a.md", patterns: "*.md", restored: "docs/a.md"},
		{change: "M check.sh", command: "./check.sh", patterns: "/docs/**,x.{a,b}"},
		{change: "M sub/docs/a", patterns: "/docs/**"},
		{change: "M docs/deep/a", patterns: "/docs/**", restored: "docs/deep/a"},
		{change: "M a/b/c.go", patterns: "a/**/c.go", restored: "a/b/c.go"},
		{change: "M a/c.go", patterns: "a/**/c.?o", restored: "a/c.go"},
		{change: "M a_test.go", patterns: "-"},
	} {
		var patterns []string
		if tc.patterns != "" {
			patterns = strings.Split(strings.Trim(tc.patterns, "-"), ",x")
		}
		paths, err := NewPaths(patterns)
		expect.NoError(t, err)
		prefix := ""
		if strings.Contains(tc.change, "in/sub/") || strings.HasPrefix(tc.command, "../") {
			prefix = "in/sub"
		}
		of := paths.split([]state.FileChange{fileChange(tc.change)}, tc.command, prefix)
		expect.Equal(t, tc.change+": restored", strings.Join(of.restored, " "), tc.restored)
		expect.Equal(t, tc.change+": listed", strings.Join(of.changed, " "), tc.changed)
		expect.Equal(t, tc.change+": named", strings.Join(of.named, " "), tc.named)
	}
	for _, bad := range []string{"a{b", "a}b", "a{b}}", "[", "[ab]", "a]", `a\b`} {
		if _, err := NewPaths([]string{bad}); err == nil {
			t.Errorf("%q is a pattern", bad)
		}
	}
}

// Patterns of the operator that fit nothing are named. Those of common runners need not fit.
func TestPathsUnused(t *testing.T) {
	t.Parallel()
	base, changes := []string{"a.go", "docs/b.md"}, []state.FileChange{fileChange("A new/c.txt")}
	for patterns, want := range map[string]string{"": "", "-": "", "-*.go": "", "-*.txt": "",
		"-*.c,*.md,/b.md": "*.c,/b.md", "-docs/": "docs/"} {
		var given []string
		if rest, ok := strings.CutPrefix(patterns, "-"); ok {
			given = strings.Split(rest, ",")
		}
		paths, err := NewPaths(given)
		expect.NoError(t, err)
		expect.Equal(t, patterns+": unused", strings.Join(paths.unused(base, changes), ","), want)
	}
}

func fileChange(text string) state.FileChange {
	f := strings.Fields(text)
	statuses := []string{"Added", "Modified", "Deleted", "Renamed", "Type_changed"}
	i := slices.IndexFunc(statuses, func(s string) bool { return s[:1] == f[0] })
	c := state.FileChange{Status: strings.ToLower(statuses[i]), Path: f[len(f)-1]}
	if len(f) == 3 && f[1] == "->" {
		c.Mode = symlink
	} else if len(f) == 3 {
		c.From = f[1]
	}
	return c
}
