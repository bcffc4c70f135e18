package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"

	"holon/runner"
	"holon/runner/engine"
)

// settings are what flags, environment and configuration file can say about a
// run, in falling order of weight. A flag that was not given leaves the value
// that the layers below set.
type settings struct {
	Model        string        `env:"HOLON_MODEL" yaml:"model"`
	Image        string        `env:"HOLON_IMAGE" yaml:"image"`
	Engine       string        `env:"HOLON_ENGINE" yaml:"engine"`
	IncludeDirty bool          `env:"HOLON_INCLUDE_DIRTY" yaml:"include_dirty"`
	Timeout      time.Duration `env:"HOLON_TIMEOUT" yaml:"timeout"`
	MaxRounds    int           `env:"HOLON_MAX_ROUNDS" yaml:"max_rounds"`
	Memory       string        `env:"HOLON_MEMORY" yaml:"memory"`
	CPUs         float64       `env:"HOLON_CPUS" yaml:"cpus"`
	Network      string        `env:"HOLON_NETWORK" yaml:"network"`
	Skills       []string      `env:"HOLON_SKILLS" yaml:"skills"`
	Confinement  confinement   `yaml:"-"` // a repository may not decide it
}

// Defaults of a run.
const (
	defaultImage   = "holon/base:latest"
	defaultModel   = "openai/gpt-5"
	defaultTimeout = time.Hour
	demoScenario   = "demo" // built into agentd
)

func defaultSettings() settings {
	return settings{Image: defaultImage, Engine: "auto", IncludeDirty: true, Timeout: defaultTimeout, MaxRounds: runner.DefaultMaxRounds, Network: engine.NetworkNone}
}

// host is what only the environment sets: where things are, and keys.
type host struct {
	Home          string `env:"HOLON_HOME"`
	Agentd        string `env:"HOLON_AGENTD"`
	OpenAIKey     string `env:"OPENAI_API_KEY"`
	OpenAIBaseURL string `env:"OPENAI_BASE_URL"`
	DockerHost    string `env:"DOCKER_HOST"`
	UserHome      string `env:"HOME"`
}

// loadEnv reads v from the environment; every malformed variable is named.
func loadEnv(v any) error {
	err := env.Parse(v)
	if agg, ok := errors.AsType[env.AggregateError](err); ok {
		wrong := make([]string, len(agg.Errors))
		for i, e := range agg.Errors {
			wrong[i] = e.Error()
			if p, ok := errors.AsType[env.ParseError](e); ok {
				wrong[i] = variable(v, p.Name) + ": " + p.Err.Error()
			}
		}
		return usageError{fmt.Errorf("%s; correct or unset it", strings.Join(wrong, ", "))}
	}
	return err
}

// variable returns the name of the variable that sets a field of *v.
func variable(v any, field string) string {
	f, _ := reflect.TypeOf(v).Elem().FieldByName(field)
	return f.Tag.Get("env")
}

// configFile is where a repository keeps settings for runs on it.
const configFile = ".holon/config.yaml"

const maxConfig = 64 << 10

// repositoryTop returns the top of the repository that dir lies in, else dir. It
// only looks for .git: git itself, which runs what a repository configures, is
// left to package workspace.
func repositoryTop(dir string) string {
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

// loadFile reads the configuration file of the workspace's repository, if it has
// one. The file comes with the repository, so it is not trusted to loosen
// anything: an engine or a network that confines less has to come from the
// person, and paths stay within the repository.
func (s *settings) loadFile(workspace string) error {
	top := repositoryTop(workspace)
	path := filepath.Join(top, configFile)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil
	}
	if err != nil {
		return usageError{fmt.Errorf("%s: %w", configFile, err)}
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if err != nil || len(data) > maxConfig {
		return usageError{fmt.Errorf("%s: cannot be read, or is larger than %d KiB", configFile, maxConfig>>10)}
	}
	before := *s
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	if err := dec.Decode(s); err != nil && !errors.Is(err, io.EOF) {
		return fileError(err)
	}
	if s.Engine != before.Engine && s.Engine != "docker" {
		return loosened("engine", s.Engine)
	}
	if s.Network != before.Network && s.Network != "none" {
		return loosened("network", s.Network)
	}
	for i, skill := range s.Skills {
		if s.Skills[i], err = inRepository(top, skill); err != nil {
			return usageError{fmt.Errorf("%s: skills: %w; name it with --skill", configFile, err)}
		}
	}
	if name, ok := strings.CutPrefix(s.Model, "scripted/"); ok && name != demoScenario {
		if name, err = inRepository(top, name); err != nil {
			return usageError{fmt.Errorf("%s: model: %w; name it with --model", configFile, err)}
		}
		s.Model = "scripted/" + name
	}
	return nil
}

// inRepository returns the absolute path of what the configuration file names
// relative to top, links resolved.
func inRepository(top, name string) (string, error) {
	real, err := filepath.EvalSymlinks(top)
	if err != nil {
		return "", err
	}
	path, err := filepath.EvalSymlinks(filepath.Join(real, name))
	if err != nil {
		return "", fmt.Errorf("%q is not there", name)
	}
	if rel, err := filepath.Rel(real, path); err != nil || !filepath.IsLocal(name) || !filepath.IsLocal(rel) {
		return "", fmt.Errorf("%q leads out of the repository", name)
	}
	return path, nil
}

var unknownKey = regexp.MustCompile(`field (\S+) not found in type \S+`)

// fileError says what is wrong with the configuration file in its own terms.
func fileError(err error) error {
	what := strings.TrimPrefix(err.Error(), "yaml: ")
	if typed, ok := errors.AsType[*yaml.TypeError](err); ok {
		what = strings.Join(typed.Errors, ", ")
	}
	what = unknownKey.ReplaceAllString(what, "$1 is no key here")
	return usageError{fmt.Errorf("%s: %s; correct the file", configFile, what)}
}

func loosened(key, value string) error {
	return usageError{fmt.Errorf("%s: %s: %q confines less than the default, which a repository may not decide; give it as --%s if you mean it", configFile, key, value, key)}
}

// memory returns the limit in bytes; 0 is the engine's default.
func (s *settings) memory() (int64, error) {
	if s.Memory == "" {
		return 0, nil
	}
	n, err := units.RAMInBytes(s.Memory)
	if err != nil || n <= 0 {
		return 0, usageError{fmt.Errorf("--memory: %q is not a size; write for example 512m or 4g", s.Memory)}
	}
	return n, nil
}

// check refuses values that no run can have.
func (s *settings) check() error {
	switch {
	case !slices.Contains([]string{"auto", "docker", "local"}, s.Engine):
		return usageError{fmt.Errorf("--engine: %q is unknown; choose auto, docker or local", s.Engine)}
	case s.Timeout < time.Second: // a number without a unit is nanoseconds
		return usageError{fmt.Errorf("--timeout: %s is less than a second; write for example 30m", s.Timeout)}
	case s.MaxRounds < 1:
		return usageError{fmt.Errorf("--max-rounds: %d is less than 1; leave it out for the default", s.MaxRounds)}
	case s.CPUs < 0 || s.CPUs > 4096:
		return usageError{fmt.Errorf("--cpus: %g is out of range; leave it out for all", s.CPUs)}
	}
	if err := s.Confinement.check(s.Engine); err != nil {
		return err
	}
	_, err := s.memory()
	return err
}

// environ turns the --env values into K=V: a bare name takes the caller's value.
func environ(list []string) ([]string, error) {
	var out []string
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if name == "" || strings.ContainsAny(name, " \t\n,") || strings.HasPrefix(name, "HOLON_") {
			return nil, usageError{fmt.Errorf("--env: %q is no name of a variable for commands; write NAME=VALUE, HOLON_ names are reserved", runner.OneLine(name, 80))}
		}
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				return nil, usageError{fmt.Errorf("--env: %s has no value and is not set here; write %s=VALUE", runner.OneLine(kv, 80), runner.OneLine(kv, 80))}
			}
		}
		out = append(out, name+"="+value)
	}
	return out, nil
}
