package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"holon/responses/models"
)

const demoScenario = "demo" // built into agentd

// project reads the file of the directory that is worked on. It comes with a
// repository, so it is not trusted to choose who is asked or paid or to loosen
// anything, and paths stay within the repository.
func (l *Loaded) project(top string) {
	origin := Origin{LayerProject, ProjectFile}
	data, _, err := readFile(filepath.Join(top, ProjectFile))
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
	l.walk(origin, nil, tree, func(k *key, name string, n node) bool {
		what, remedy := l.mayDecide(k, top, n)
		if what != "" {
			l.undecided(origin, n.line, k.full(name), what, remedy)
		}
		return what == ""
	})
	l.resolve(origin, top)
}

// undecided is bad for what a person may decide.
func (l *Loaded) undecided(origin Origin, line int, key, what, remedy string) {
	l.bad(origin, line, key, what, remedy)
	l.Problems[len(l.Problems)-1].decided = true
}

// mayDecide says why a repository may not set a key to a value.
func (l *Loaded) mayDecide(k *key, top string, n node) (what, remedy string) {
	switch k.project {
	case never:
		return "is not for a repository to decide", "set it with holon config set, or as a variable"
	case strictOnly:
		if n.kind == kindString && n.text != k.strict {
			return fmt.Sprintf("%.100q confines less than the default, which a repository may not decide", n.text), fmt.Sprintf("give it as --%s if you mean it", k.name)
		}
	case ownModel:
		provider, _, ok := models.SplitRef(n.text)
		if ok && n.kind == kindString && provider != models.Scripted && !l.chose(provider) {
			return fmt.Sprintf("%.100q would send the files to another provider than yours, which a repository may not decide", n.text), "give it as --model if you mean it"
		}
	}
	return "", ""
}

// chose reports whether the person's own settings lead to a provider.
func (l *Loaded) chose(provider string) bool {
	for _, ref := range append(l.Refs(), l.environmentRefs()...) {
		if own, _, ok := models.SplitRef(ref); ok && own == provider {
			return true
		}
	}
	return false
}

// environmentRefs returns the models that the environment names: it is read
// after the project's file, and is the person's own all the same.
func (l *Loaded) environmentRefs() (refs []string) {
	for _, kv := range l.sources.Environ {
		name, value, _ := strings.Cut(kv, "=")
		if name == "HOLON_MODEL" || name == "HOLON_MODEL_FALLBACKS" {
			for ref := range strings.SplitSeq(value, ",") {
				refs = append(refs, strings.TrimSpace(ref))
			}
		}
	}
	return refs
}

// resolve makes the paths of the project's file absolute.
func (l *Loaded) resolve(origin Origin, top string) {
	if l.origins["skills"] == origin {
		for i, skill := range l.Skills {
			path, err := inRepository(top, skill)
			if err != nil {
				l.undecided(origin, 0, "skills", err.Error(), "name it with --skill")
				continue
			}
			l.Skills[i] = path
		}
	}
	if name, ok := strings.CutPrefix(l.Model, models.Scripted+"/"); ok && l.origins["model.default"] == origin && name != demoScenario {
		path, err := inRepository(top, name)
		if err != nil {
			l.undecided(origin, 0, "model.default", err.Error(), "name it with --model")
			return
		}
		l.Model = models.Scripted + "/" + path
	}
}

// inRepository returns the absolute path of what the project's file names
// relative to top, links resolved.
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
