package oneshot

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/state"
)

// Patterns of files that common runners of tests read.
var (
	// tests have the cases. Those that a run changed or removed are as in the base for its check; it may add some.
	testPaths = []string{"*_test.go", "testdata/**", "test_*.py", "*_test.py", "tests/**", "test/**", "test.*",
		"*.test.{js,jsx,ts,tsx,mjs,cjs,mts,cts}", "*.spec.*", "__tests__/**", "__snapshots__/**", "spec/**", "*_spec.rb",
		"src/test/**"}
	// runnerPaths say nothing but what a runner does. They are as in the base, and new ones are left out.
	runnerPaths = []string{"conftest.py", "pytest.ini", ".pytest.ini", "tox.ini", "noxfile.py", "{GNUm,M,m}akefile",
		"*.mk", "{J,j}ustfile", "Taskfile.{yml,yaml}", "Rakefile", ".rspec", ".mocharc*", "phpunit.xml*",
		"{jest,vitest,karma,playwright,cypress,ava}.config.*", ".justfile", "karma.conf.*", "vitest.workspace.*",
		"bunfig.toml", ".npmrc", ".cargo/{config,config.toml}", ".config/nextest.toml", ".mvn/**", ".coveragerc",
		"{sitecustomize,usercustomize,pytest,_pytest,unittest,doctest,nose2,tox,nox,coverage}.py",
		"/{sitecustomize,usercustomize,pytest,_pytest,unittest,doctest,nose2,tox,nox,coverage}/**"}
	// mixedPaths say that among other things that a run has to change, such as what it depends on.
	mixedPaths = []string{"package.json", "pyproject.toml", "setup.cfg", "setup.py", "go.mod", "Cargo.toml", "build.rs",
		"pom.xml", "*.gradle", "*.gradle.kts", "CMakeLists.txt", "composer.json", "Gemfile", "*.csproj",
		"go.work", ".cargo/**", "tsconfig*.json", "gradle.properties", "vite.config.*"}
	// checkNames begin or end the names of programs that check.
	checkNames = regexp.MustCompile(`(?i)(test|check|spec|verify|lint)`)
)

// Paths are the files that decide what a check looks at.
type Paths struct {
	tests, exact, mixed []*regexp.Regexp
	named               bool // files that the command names, too
}

// NewPaths makes them of patterns: * is any part of a name, ** any directories, {a,b} one of both. A pattern fits a
// path, or what follows a directory of it; one that begins with / the whole path. Without patterns they are what common
// runners of tests read.
func NewPaths(patterns []string) (*Paths, error) {
	if patterns == nil {
		return &Paths{tests: mustCompile(testPaths), exact: mustCompile(runnerPaths), mixed: mustCompile(mixedPaths),
			named: true}, nil
	}
	exact, err := compile(patterns)
	return &Paths{exact: exact}, err
}

func mustCompile(patterns []string) []*regexp.Regexp {
	list, err := compile(patterns)
	if err != nil {
		panic(err) // they are constant
	}
	return list
}

func compile(patterns []string) (list []*regexp.Regexp, _ error) {
	for _, p := range patterns {
		if p == "" {
			continue
		}
		re, err := regexp.Compile(translate(p))
		if err != nil || strings.Count(p, "{") != strings.Count(p, "}") {
			return nil, fmt.Errorf("%q is not a pattern", visible.OneLine(p, 100))
		}
		list = append(list, re)
	}
	return list, nil
}

// translate makes a regular expression of a pattern.
func translate(pattern string) string {
	var b strings.Builder
	b.WriteString(`^(?s:`)
	if rest, whole := strings.CutPrefix(pattern, "/"); whole {
		pattern = rest
	} else {
		b.WriteString(`(?:.*/)?`)
	}
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case strings.HasPrefix(pattern[i:], "**/"):
			b.WriteString(`(?:.*/)?`)
			i += 2
		case strings.HasPrefix(pattern[i:], "**"):
			b.WriteString(`.*`)
			i++
		case c == '*':
			b.WriteString(`[^/]*`)
		case c == '?':
			b.WriteString(`[^/]`)
		case c == '{':
			b.WriteString(`(?:`)
		case c == '}':
			b.WriteByte(')')
		case c == ',' && strings.Count(pattern[:i], "{") > strings.Count(pattern[:i], "}"):
			b.WriteByte('|')
		default:
			b.WriteString(regexp.QuoteMeta(pattern[i : i+1]))
		}
	}
	b.WriteString(`)$`)
	return b.String()
}

// Split returns which of the changed files the check gets as they are in the base, and which of the others may decide
// how it runs. prefix is the directory in which the command runs.
func (p *Paths) Split(changes []state.FileChange, command, prefix string) (restore, changed []string) {
	restore, changed = []string{}, []string{} // lists of a manifest
	names := p.commandNames(command, prefix)
	for _, f := range changes {
		before := f.Path
		if f.From != "" {
			before = f.From
		}
		added := f.Status == "added"
		switch {
		case !added && p.restores(before, names, prefix), f.Status != "deleted" && p.sets(f.Path, prefix):
			restore = append(restore, f.Path)
			if before != f.Path {
				restore = append(restore, before)
			}
		case fits(p.mixed, f.Path), fits(p.mixed, before), slices.Contains(names, f.Path):
			changed = append(changed, f.Path)
		}
	}
	return restore, changed
}

// restores reports whether a file of the base decides what the check looks at.
func (p *Paths) restores(file string, names []string, prefix string) bool {
	return fits(p.tests, file) || p.sets(file, prefix) ||
		slices.Contains(names, file) && checkNames.MatchString(path.Base(file))
}

// sets reports whether a file says what a runner does. What a runner finds at the top it finds in the directory of the
// command, too.
func (p *Paths) sets(file, prefix string) bool {
	below, is := strings.CutPrefix(file, prefix+"/")
	return fits(p.exact, file) || p.named && is && fits(p.exact, below)
}

func fits(patterns []*regexp.Regexp, file string) bool {
	return slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(file) })
}

// commandNames are the words of a command that may be files, by their path in the tree.
func (p *Paths) commandNames(command, prefix string) (names []string) {
	if !p.named {
		return nil
	}
	for _, word := range strings.FieldsFunc(command, func(r rune) bool {
		return strings.ContainsRune(" \t\r\n;|&()<>'\"`=$", r)
	}) {
		names = append(names, path.Join(prefix, word))
	}
	return names
}
