package oneshot

import (
	_ "embed"
	"path"
	"regexp"
	"slices"
	"strings"

	"holon/internal/pattern"
	"holon/state"
)

// pythonModules are the modules of Python 3.10 to 3.14, and those that pytest loads: Python takes one of the directory
// where it runs instead.
//
//go:embed pythonmodules.txt
var pythonModules string

// Patterns of files that common runners of tests read.
var (
	// tests have the cases. Those that a run changed or removed are as in the base for its check; it may add some.
	testPaths = []string{"*_test.go", "testdata/**", "test_*.py", "*_test.py", "tests/**", "test/**", "test.*",
		"*.test.{js,jsx,ts,tsx,mjs,cjs,mts,cts}", "*.spec.*", "__tests__/**", "__snapshots__/**", "spec/**", "*_spec.rb",
		"src/test/**"}
	// runnerPaths say nothing but what a runner does. They are as in the base, and new ones are left out.
	runnerPaths = []string{"conftest.py", "{,.}pytest.{ini,toml}", "tox.{ini,toml}", "noxfile.py",
		"{GNUm,M,m}akefile{,.*}", "*.{mk,mak,make}", "{J,j}ustfile", "{T,t}askfile{,.dist}.{yml,yaml}", "Rakefile",
		".rspec{,-local}", ".mocharc*", "mocha.opts", "{,.}phpunit*.xml*", ".justfile", "karma.conf.*",
		"{jest,vitest,karma,playwright,cypress,ava,web-test-runner}.config.*", "{jest,vitest}.setup.*",
		"vitest.workspace.*", "wdio.conf.*", ".{nyc,c8,coverage,bazel,prove}rc*", ".taprc", ".pnp.*", ".pnpmfile.*",
		".yarnrc*", "bunfig.toml", ".npmrc", ".cargo", ".cargo/{config,config.toml}", "rust-toolchain{,.toml}",
		".config/nextest.toml", ".mvn/**", "gradle/wrapper/**", "junit-platform.properties", "*.runsettings",
		"{Directory.Build,MSBuild}.rsp", "xunit.runner.json", "CTest*.cmake", "tools/bazel", ".bundle/config", ".busted",
		"dart_test.yaml", "{nose2,unittest}.cfg", "__pycache__/**", "*.pyc", "*.{dist,egg}-info/**",
		"/node_modules/**", "node_modules/.bin/**", "vendor/bin/**", "/lib/{minitest,rspec,test/unit}{.rb,/**}",
		"{sitecustomize,usercustomize,pytest,_pytest,unittest,doctest,nose2,tox,nox,coverage}.py",
		"/{sitecustomize,usercustomize,pytest,_pytest,unittest,doctest,nose2,tox,nox,coverage}/**",
		"/{" + strings.Join(strings.Fields(pythonModules), ",") + "}{.py,.so,.*.so,/__init__.*}"}
	// mixedPaths say that among other things that a run has to change, such as what it depends on.
	mixedPaths = []string{"package.json", "pyproject.toml", "setup.cfg", "setup.py", "go.mod", "Cargo.toml", "build.rs",
		"pom.xml", "*.gradle", "*.gradle.kts", "buildSrc/**", "CMakeLists.txt", "*.cmake", "composer.json", "Gemfile",
		"*.rake", "*.csproj", "Directory.*.{props,targets}", "go.work", ".cargo/**", "tsconfig*.json", "gradle.properties",
		"vite.config.*", "babel.config.*", ".babelrc*", ".swcrc", "deno.{json,jsonc}", "BUILD{,.bazel}", "*.sbt",
		"mix.exs", "pnpm-workspace.yaml", ".env"}
	// checkNames begin or end the names of programs that check.
	checkNames = pattern.Lazy(`(?i)(test|check|spec|verify|lint)`)
)

// Paths are the files that decide what a check looks at.
type Paths struct {
	tests, exact, mixed []*regexp.Regexp
	given               []string // the patterns of exact, as the operator gave them; nil for those of common runners
}

// NewPaths makes them of patterns: * is any part of a name, ** any directories, {a,b} one of both. A pattern fits a
// path, or what follows a directory of it; one that begins with / the whole path. Without patterns they are what common
// runners of tests read.
func NewPaths(patterns []string) (*Paths, error) {
	if patterns == nil {
		return &Paths{tests: mustCompile(testPaths), exact: mustCompile(runnerPaths), mixed: mustCompile(mixedPaths)},
			nil
	}
	patterns = slices.DeleteFunc(slices.Clone(patterns), func(p string) bool { return p == "" })
	exact, err := compile(patterns)
	return &Paths{exact: exact, given: append([]string{}, patterns...)}, err
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
		re, err := pattern.Glob(p)
		if err != nil {
			return nil, err
		}
		list = append(list, re)
	}
	return list, nil
}

// split says of the files that a run changed what its check does with them.
type split struct {
	restored []string // it gets them as they are in the base
	changed  []string // others that may decide how it runs
	named    []string // of these, files of the base that the command names: with them it does not pass
}

// split splits changes. prefix is the directory in which the command runs.
func (p *Paths) split(changes []state.FileChange, command, prefix string) split {
	of := split{restored: []string{}, changed: []string{}} // lists of a manifest
	names := p.commandNames(command, prefix)
	dirs := append(names.dirs(), prefix)
	for _, f := range changes {
		before := f.Path
		if f.From != "" {
			before = f.From
		}
		named := f.Status != "added" && names.have(before)
		switch {
		case f.Status != "added" && p.restores(before, named, dirs), f.Status != "deleted" && p.sets(f.Path, dirs),
			f.Mode == symlink && p.sets(f.Path+"/__init__.py", dirs):
			of.restored = append(of.restored, f.Path)
			if before != f.Path {
				of.restored = append(of.restored, before)
			}
		case named:
			of.changed, of.named = append(of.changed, before), append(of.named, before)
		case fits(p.mixed, f.Path), fits(p.mixed, before), names.have(f.Path):
			of.changed = append(of.changed, f.Path)
		}
	}
	return of
}

// symlink is the mode of one, which may stand for a directory.
const symlink = "120000"

// restores reports whether a file of the base decides what the check looks at.
func (p *Paths) restores(file string, named bool, dirs []string) bool {
	return fits(p.tests, file) || p.sets(file, dirs) || named && checkNames().MatchString(path.Base(file))
}

// sets reports whether a file says what a runner does. What a runner finds at the top it finds in the directories of
// the command, too.
func (p *Paths) sets(file string, dirs []string) bool {
	return fits(p.exact, file) || p.given == nil && slices.ContainsFunc(dirs, func(dir string) bool {
		below, is := strings.CutPrefix(file, dir+"/")
		return is && fits(p.exact, below)
	})
}

// unused are the patterns that the operator gave and that fit no file of the base and none of the changes.
func (p *Paths) unused(base []string, changes []state.FileChange) []string {
	list := []string{} // of a manifest
	for i, re := range p.exact[:len(p.given)] {
		if !slices.ContainsFunc(base, re.MatchString) &&
			!slices.ContainsFunc(changes, func(f state.FileChange) bool { return re.MatchString(f.Path) }) {
			list = append(list, p.given[i])
		}
	}
	return list
}

func fits(patterns []*regexp.Regexp, file string) bool {
	return slices.ContainsFunc(patterns, func(re *regexp.Regexp) bool { return re.MatchString(file) })
}
