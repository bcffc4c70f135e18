package settings

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"go.yaml.in/yaml/v3"

	"holon/internal/bounded"
	"holon/internal/durable"
	"holon/internal/providers"
	"holon/state"
)

// Layer is a kind of source, in rising order of precedence.
type Layer string

// The layers.
const (
	LayerDefault Layer = "default"
	LayerUser    Layer = "user"    // config.json of HOLON_HOME
	LayerProject Layer = "project" // .holon/config.yaml
	LayerEnv     Layer = "environment"
	LayerFlag    Layer = "flag"
)

// origin is the source of a value: the layer, and the file, variable or flag.
type origin struct {
	Layer Layer  `json:"layer"`
	Name  string `json:"name,omitempty"`
}

// String returns the name of the source, or the layer if it has none.
func (o origin) String() string {
	if o.Name == "" {
		return string(o.Layer)
	}
	return o.Name
}

// Names of the files.
const (
	UserFile    = "config.json"
	ProjectFile = ".holon/config.yaml"
)

// Sources are where settings are read from. Empty ones are left out.
type Sources struct {
	File    string // the person's file
	Project string // top of the repository, or the directory, that is worked on
	// Consents is the home that remembers what a person agreed to of projects.
	Consents string
	Environ  []string
}

// invalidSetting is a fault in a source of settings.
type invalidSetting struct {
	Origin origin // of the source
	Line   int    // of a file; 0: all of it
	Key    string // "" when no key is at fault
	What   string
	Remedy string

	decided bool // it disappears if a person's own setting decides
}

// CodeInvalid is the code of errors about what a person set.
const CodeInvalid state.Code = "usage"

// Err returns the problem as an error that names the source and the key.
func (p invalidSetting) Err() *state.Error {
	what := p.What
	if p.Key != "" && p.Origin.Layer != LayerEnv && p.Origin.Layer != LayerFlag {
		what = p.Key + ": " + what
	}
	if p.Line > 0 {
		what = fmt.Sprintf("line %d: %s", p.Line, what)
	}
	return &state.Error{Code: CodeInvalid, Param: p.Origin.Name, Message: what, Hint: p.Remedy}
}

// assignment is a value that a layer set, whether or not another outweighs it.
type assignment struct {
	key    *key
	name   string // what "*" stands for
	origin origin
	text   string
}

// Loaded are merged settings and where each comes from.
type Loaded struct {
	Settings
	Problems []invalidSetting
	Pending  []Consent // values of the project's file that are not in force before a person agrees

	sources     Sources
	origins     map[string]origin // by full key
	assignments []assignment
	variables   map[string]string
	considered  map[string]bool // providers whose variables were taken
}

// Load reads the sources and merges them. Invalid settings are left out and listed in Problems; see [Loaded.Err].
func Load(src Sources) *Loaded {
	l := &Loaded{Settings: Default(), sources: src, origins: make(map[string]origin), considered: make(map[string]bool)}
	if src.File != "" {
		l.user(src.File)
	}
	if src.Project != "" {
		l.project(src.Project)
	}
	l.environment(src.Environ)
	return l
}

// Err returns the faults of the sources as one *state.Error. The caller applies flags first, because a flag
// can decide what a project may not. Faults of variables are reported together, because a person can correct them
// together; of a file only the first is reported.
func (l *Loaded) Err() error {
	problems := l.AllProblems()
	if len(problems) == 0 {
		return nil
	}
	first := problems[0].Err()
	if problems[0].Origin.Layer != LayerEnv {
		return first
	}
	for _, p := range problems[1:] {
		first.Message += ", " + p.Origin.Name + ": " + p.What
		first.Hint = "correct or unset them"
	}
	return first
}

// AllProblems returns the faults of single settings, and of settings that contradict each other.
func (l *Loaded) AllProblems() []invalidSetting {
	list := slices.Clone(l.Problems)
	if what := l.tokenSettings.Validate(); what != "" {
		list = append(list, invalidSetting{Origin: l.Origin(keyDefaultToolOutput), Key: keyDefaultToolOutput,
			What:   what,
			Remedy: "set both"})
	}
	return list
}

func (l *Loaded) bad(origin origin, line int, key, what, remedy string) {
	l.Problems = append(l.Problems, invalidSetting{Origin: origin, Line: line, Key: key, What: what, Remedy: remedy})
}

// user reads the person's own file. A file that other users may write is refused, because it could name programs of
// theirs.
func (l *Loaded) user(path string) {
	origin := origin{LayerUser, path}
	data, info, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err != nil {
		l.bad(origin, 0, "", err.Error(), "make it a file of yours that can be read")
		return
	}
	if remedy := writableByOthers(path, info); remedy != "" {
		l.bad(origin, 0, "", "others may write it", remedy)
		return
	}
	tree, err := parseJSON(data)
	if err != nil {
		l.syntax(origin, err)
		return
	}
	l.walk(origin, nil, tree, func(*key, string, *yaml.Node) bool { return true })
}

func (l *Loaded) syntax(origin origin, err error) {
	line := 0
	what := err.Error()
	if e, ok := errors.AsType[*syntaxError](err); ok {
		line, what = e.line, e.what
	}
	l.bad(origin, line, "", what, "correct the file")
}

// readFile reads a small regular file without following a link in its place.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	f, err := durable.Open(path)
	if errors.Is(err, syscall.ENOTDIR) {
		return nil, nil, fs.ErrNotExist
	}
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be read: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("it cannot be read: %w", err)
	}
	data, err := bounded.ReadAll(f, maxFile)
	return data, info, err
}

// writableByOthers returns the remedy for a file that other users may write, "" for any other file.
func writableByOthers(path string, info fs.FileInfo) string {
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Sprintf("make it yours: chown %d %s", os.Geteuid(), path)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return "chmod 600 " + path
	}
	return ""
}

// walk takes the values of a file. allow decides about each one and reports those that it refuses.
func (l *Loaded) walk(origin origin, path []string, n *yaml.Node, allow allowRule) {
	if n.Kind != yaml.MappingNode {
		l.bad(origin, n.Line, strings.Join(path, "."), describe(n), "write an object with settings")
		return
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		l.take(origin, append(path[:len(path):len(path)], n.Content[i].Value), n.Content[i].Line, n.Content[i+1], allow)
	}
}

// allowRule decides whether a layer may set a key to a value.
type allowRule func(k *key, name string, n *yaml.Node) bool

// take takes the value at a path of a file; line is the line of its key.
func (l *Loaded) take(origin origin, path []string, line int, value *yaml.Node, allow allowRule) {
	k, name, match := lookup(path)
	if match == matchGroup && len(path) == 1 && path[0] == "model" && isText(value) {
		k, name, match = lookup([]string{"model", "default"}) // model: NAME is the short form
	}
	switch match {
	case matchKey:
		if !allow(k, name, value) {
			return
		}
		if what, remedy := l.set(origin, k, name, value); what != "" {
			l.bad(origin, value.Line, k.full(name), what, remedy)
		}
	case matchGroup:
		l.walk(origin, path, value, allow)
	case matchBadName:
		l.bad(origin, line, strings.Join(path, "."), "is not the name of a provider or model",
			"use a provider's name in lower case, or provider/model")
	default:
		l.bad(origin, line, "", fmt.Sprintf("%.100s is not a setting", strings.Join(path, ".")), nearest(path))
	}
}

// set assigns one value, or returns why it is invalid.
func (l *Loaded) set(origin origin, k *key, name string, n *yaml.Node) (what, remedy string) {
	v, what, remedy := k.parse(n)
	if what != "" {
		return what, remedy
	}
	k.value(&l.Settings, name).Set(v)
	l.origins[k.full(name)] = origin
	if origin.Layer == LayerEnv || origin.Layer == LayerFlag {
		l.Problems = slices.DeleteFunc(l.Problems, func(p invalidSetting) bool {
			return p.decided && p.Key == k.full(name)
		})
		l.settle(k.full(name))
	}
	l.assignments = append(l.assignments, assignment{k, name, origin, Text(shown(v))})
	return "", ""
}

// environment reads the variables of the table, and those of all providers that are built in, set or named by a model.
func (l *Loaded) environment(environ []string) {
	l.variables = make(map[string]string, len(environ))
	for _, kv := range environ {
		if name, value, ok := strings.Cut(kv, "="); ok {
			l.variables[name] = strings.TrimSpace(value)
		}
	}
	for _, k := range keys() {
		if k.env != "" && k.group() == plain {
			l.variable(k, "", k.env)
		}
	}
	for _, name := range l.ProviderNames() {
		l.variablesOf(name)
	}
	l.Consider(l.Refs()...)
}

// Consider reads the variables of the providers of models, because X_BASE_URL alone makes x a provider.
func (l *Loaded) Consider(refs ...string) {
	for _, name := range ProvidersOf(refs) {
		if providers.ValidName(name) {
			l.variablesOf(name)
		}
	}
}

// variablesOf takes the variables of a provider, once.
func (l *Loaded) variablesOf(name string) {
	if l.considered[name] {
		return
	}
	l.considered[name] = true
	for _, k := range keys() {
		if k.env != "" && k.group() == ofProvider {
			l.variable(k, name, providers.Setting(name, k.env))
		}
	}
}

// variable takes one variable.
func (l *Loaded) variable(k *key, name, variable string) {
	text := l.variables[variable]
	if text == "" {
		return
	}
	origin := origin{LayerEnv, variable}
	n, err := k.parseText(text)
	if err != nil {
		l.bad(origin, 0, k.full(name), err.Error(), "correct or unset it")
		return
	}
	if what, remedy := l.set(origin, k, name, n); what != "" {
		l.bad(origin, 0, k.full(name), what, remedy)
	}
}

// RepositoryTop returns the top of the repository that contains dir, or dir. It only looks for .git and does
// not run git, which could run programs that a repository configures.
func RepositoryTop(dir string) string {
	for top := dir; ; {
		if _, err := os.Lstat(filepath.Join(top, ".git")); err == nil {
			return top
		}
		parent := filepath.Dir(top)
		if parent == top {
			return dir
		}
		top = parent
	}
}
