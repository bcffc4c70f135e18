package toolchain

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"holon/internal/pattern"
)

// maxRead bounds what is read of a file.
const maxRead = 256 << 10

func read(tree fs.FS, name string) string {
	info, err := fs.Stat(tree, name)
	if err != nil || !info.Mode().IsRegular() { // a pipe would be waited for
		return ""
	}
	f, err := tree.Open(name)
	if err != nil {
		return ""
	}
	defer f.Close()
	data, _ := io.ReadAll(io.LimitReader(f, maxRead)) // what can be read counts
	return string(data)
}

var (
	goDirective    = pattern.Lazy(`(?m)^go[ \t]+([0-9]+(?:\.[0-9]+)*)`)
	requiresPython = pattern.Lazy(`(?m)^[ \t]*requires-python[ \t]*=[ \t]*["'][^"'\n]*>=[ \t]*([0-9]+(?:\.[0-9]+)*)`)
	enginesNode    = pattern.Lazy(`"engines"\s*:\s*\{[^{}]*"node"\s*:\s*"([^"]*)"`)
	lowest         = pattern.Lazy(`^\s*(?:>=|\^|~|=|v)*\s*([0-9]+(?:\.[0-9]+)*)`)
	highest        = pattern.Lazy(`<(=?)\s*v?([0-9]+(?:\.[0-9]+)*)`)
	namesPytest    = pattern.Lazy(`(?m)(?:^|["' \t,\[])pytest(?:$|["' \t,\]\[=<>~!;\r])|^\[tool\.pytest`)
	comment        = pattern.Lazy(`(?m)#.*$`)
	nodeNumber     = pattern.Lazy(`(?m)^#define NODE_(?:MAJOR|MINOR|PATCH)_VERSION (\d+)`)
)

// Requires returns the lowest version of its program that a file asks for, "" where it asks for none or that is not
// simple.
func (n Need) Requires(tree fs.FS) string {
	switch path.Base(n.File) {
	case "go.mod":
		return first(goDirective().FindStringSubmatch(read(tree, n.File)))
	case "pyproject.toml":
		return first(requiresPython().FindStringSubmatch(read(tree, n.File)))
	case "package.json":
		found := ""
		for alternative := range strings.SplitSeq(first(enginesNode().FindStringSubmatch(read(tree, n.File))), "||") {
			at := first(lowest().FindStringSubmatch(alternative))
			if at == "" {
				return ""
			}
			if found == "" || Older(at, found) {
				found = at
			}
		}
		return found
	}
	return ""
}

// Below returns the first version of its program that is too new for a file, "" where none is or that is not simple.
func (n Need) Below(tree fs.FS) (found string) {
	if path.Base(n.File) != "package.json" {
		return ""
	}
	for alternative := range strings.SplitSeq(first(enginesNode().FindStringSubmatch(read(tree, n.File))), "||") {
		match := highest().FindStringSubmatch(alternative)
		if match == nil {
			return ""
		}
		at := match[2]
		if match[1] != "" { // <=20 takes 20.1
			before, last := at[:strings.LastIndexByte(at, '.')+1], at[strings.LastIndexByte(at, '.')+1:]
			at = before + strconv.Itoa(part(last)+1)
		}
		if found == "" || Older(found, at) {
			found = at
		}
	}
	return found
}

// Unmet returns what a version falls short of: the lowest one, or that it is below another. "" is for one that will do,
// or that is not known.
func Unmet(version, lowest, below string) string {
	switch {
	case version == "":
		return ""
	case Older(version, lowest):
		return lowest
	case below != "" && !Older(version, below):
		return "below " + below
	}
	return ""
}

func first(match []string) string {
	if match == nil {
		return ""
	}
	return match[1]
}

// Version returns the version of a program at a path, as far as files next to it say which it is: nothing is run.
func Version(program, at string) string {
	at, err := filepath.EvalSymlinks(at)
	if err != nil {
		return ""
	}
	root := filepath.Dir(filepath.Dir(at))
	switch program {
	case "go":
		line, _, _ := strings.Cut(read(os.DirFS(root), "VERSION"), "\n")
		version, _, _ := strings.Cut(strings.TrimPrefix(line, "go"), " ")
		return number(version)
	case "python3":
		return number(strings.TrimPrefix(filepath.Base(at), "python"))
	case "node":
		var parts []string
		for _, m := range nodeNumber().FindAllStringSubmatch(read(os.DirFS(root), "include/node/node_version.h"), 3) {
			parts = append(parts, m[1])
		}
		return strings.Join(parts, ".")
	}
	return ""
}

// number returns a version that has a major and a minor one at least, else "".
func number(text string) string {
	if major, minor, ok := strings.Cut(text, "."); !ok || part(major) < 0 || part(minor) < 0 {
		return ""
	}
	return text
}

// Older reports whether a version is older than another, as far as both go.
func Older(version, than string) bool {
	have, need := strings.Split(version, "."), strings.Split(than, ".")
	for i := range min(len(have), len(need)) {
		if a, b := part(have[i]), part(need[i]); a != b {
			return a < b
		}
	}
	return false
}

// part is the number that a part of a version begins with: 21 of 21rc1; -1 for none.
func part(text string) int {
	end := 0
	for end < len(text) && end < 9 && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	n, err := strconv.Atoi(text[:end])
	if err != nil {
		return -1
	}
	return n
}

// pytest returns the file of a directory that names pytest among what is to be installed, "" for none.
func pytest(tree fs.FS, dir string) string {
	names, _ := fs.Glob(tree, path.Join(escape(dir), "*requirements*.txt")) // the pattern is fine
	for _, name := range append(names, path.Join(dir, "pyproject.toml")) {
		if namesPytest().MatchString(comment().ReplaceAllString(read(tree, name), "")) {
			return name
		}
	}
	return ""
}

func escape(dir string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(dir)
}
