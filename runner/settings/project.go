package settings

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"

	"holon/runner/engine"
)

// project reads the file of the working directory. It comes with a repository, so it can only tighten the person's own
// settings and the defaults; the tag of each key has its rule.
func (l *Loaded) project(top string) {
	origin := origin{LayerProject, ProjectFile}
	data, err := readProject(top)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.bad(origin, 0, "", err.Error(), "correct the file")
		return
	}
	tree, err := parseYAML(data)
	if err != nil {
		l.syntax(origin, err)
		return
	}
	l.walk(origin, nil, tree, func(k *key, name string, n *yaml.Node) bool {
		what, remedy := l.mayDecide(k, name, n)
		if what != "" {
			l.undecided(origin, n.Line, k.full(name), what, remedy)
		}
		if k.project == ruleAgreed && l.needsConsent(top, k, name, n) {
			return false
		}
		return what == "" && !(k.project == ruleLower && l.raises(origin, k, name, n))
	})
	l.resolve(origin, top)
}

// readProject reads the file of the working directory, of no other one: its directory may be a link.
func readProject(top string) ([]byte, error) {
	if _, err := os.Stat(filepath.Join(top, filepath.Dir(ProjectFile))); err != nil {
		return nil, fs.ErrNotExist
	}
	dir, err := inRepository(top, filepath.Dir(ProjectFile))
	if err != nil {
		return nil, err
	}
	data, _, err := readFile(filepath.Join(dir, filepath.Base(ProjectFile)))
	return data, err
}

// undecided reports a value that only a person may decide, unless the person's own file sets the key.
func (l *Loaded) undecided(origin origin, line int, key, what, remedy string) {
	if l.origins[key].Layer == LayerUser {
		return
	}
	l.bad(origin, line, key, what, remedy)
	l.Problems[len(l.Problems)-1].decided = true
}

// mayDecide returns why a repository may not set a key to a value, "" if it may.
func (l *Loaded) mayDecide(k *key, name string, n *yaml.Node) (what, remedy string) {
	switch k.project {
	case ruleLower, ruleFolder, ruleFree, ruleAgreed:
		return "", ""
	case ruleNever:
		return "is not for a repository to decide", "set it with holon config set, or as a variable"
	}
	v, what, remedy := k.parse(n)
	if what != "" {
		return what, remedy
	}
	if text := Text(shown(v)); text != k.project && text != k.text(&l.Settings, name) {
		return fmt.Sprintf("%.100q confines less than your settings, which a repository may not decide", text),
			fmt.Sprintf("give it as --%s if you mean it", strings.ReplaceAll(k.name, "_", "-"))
	}
	return "", ""
}

// raises reports whether a value is not tighter than the present limit. Then it records the value as one
// without effect.
func (l *Loaded) raises(origin origin, k *key, name string, n *yaml.Node) bool {
	v, what, _ := k.parse(n)
	if what != "" || k.limit(v) < k.limit(k.value(&l.Settings, name)) {
		return false
	}
	l.assignments = append(l.assignments, assignment{k, name, origin, Text(shown(v))})
	return true
}

// limit returns a value of a key with the rule "lower" as a number, +Inf for no bound.
func (k *key) limit(v reflect.Value) (n float64) {
	absent := math.Inf(1)
	switch p := v.Interface().(type) {
	case Size:
		bytes, _ := p.Bytes() // checked when it was assigned
		n = float64(bytes)
		if k.name == "memory" {
			absent = engine.DefaultMemory
		}
	case float64:
		n, absent = p, engine.DefaultNanoCPUs/1e9 // of cpus, the only one
	default:
		n = float64(v.Int())
	}
	return cmp.Or(n, absent)
}

// resolve makes the paths of the project's file absolute.
func (l *Loaded) resolve(origin origin, top string) {
	if l.origins["skills"] != origin {
		return
	}
	for i, skill := range l.Skills {
		path, err := inRepository(top, skill)
		if err != nil {
			l.undecided(origin, 0, "skills", err.Error(), "name it with --skill")
			continue
		}
		l.Skills[i] = path
	}
}

// inRepository returns the absolute path of what the project's file names relative to top, links resolved.
func inRepository(top, name string) (string, error) {
	real, err := filepath.EvalSymlinks(top)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(real, name))
	if err != nil {
		return "", fmt.Errorf("%.200q is not there", name)
	}
	if rel, err := filepath.Rel(real, path); err != nil || !filepath.IsLocal(name) || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%.200q leads out of the repository", name)
	}
	return path, nil
}
