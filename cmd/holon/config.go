package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/caarlos0/env/v11"
	"github.com/docker/go-units"
	"go.yaml.in/yaml/v3"

	"holon/runner"
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
}

// Defaults of a run.
const (
	defaultImage   = "holon/base:latest"
	defaultModel   = "openai/gpt-5"
	defaultTimeout = time.Hour
)

func defaultSettings() settings {
	return settings{Image: defaultImage, Engine: "auto", IncludeDirty: true, Timeout: defaultTimeout, Network: "none"}
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
		lines := make([]string, len(agg.Errors))
		for i, e := range agg.Errors {
			lines[i] = e.Error()
		}
		return usageError{fmt.Errorf("environment: %s; correct or unset the variables", strings.Join(lines, "; "))}
	}
	return err
}

// configFile is where a repository keeps settings for runs on it.
const configFile = ".holon/config.yaml"

const maxConfig = 64 << 10

// loadFile reads the configuration file of the workspace, if it has one. The
// file comes with the repository, so it is not trusted to loosen anything: an
// engine or a network that confines less has to come from the person.
func (s *settings) loadFile(workspace string) error {
	path := filepath.Join(workspace, configFile)
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
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
		return usageError{fmt.Errorf("%s: %s", configFile, strings.ReplaceAll(strings.TrimPrefix(err.Error(), "yaml: "), "\n", " "))}
	}
	if s.Engine != before.Engine && s.Engine != "docker" {
		return loosened("engine", s.Engine)
	}
	if s.Network != before.Network && s.Network != "none" {
		return loosened("network", s.Network)
	}
	for i, skill := range s.Skills {
		if !filepath.IsLocal(skill) {
			return usageError{fmt.Errorf("%s: skills: %q leads out of the repository; name it with --skill", configFile, skill)}
		}
		s.Skills[i] = filepath.Join(workspace, skill)
	}
	return nil
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
	case s.Timeout <= 0:
		return usageError{fmt.Errorf("--timeout: %s is not positive; write for example 30m", s.Timeout)}
	case s.MaxRounds < 0:
		return usageError{fmt.Errorf("--max-rounds: %d is negative; leave it out for the default", s.MaxRounds)}
	case s.CPUs < 0 || s.CPUs > 4096:
		return usageError{fmt.Errorf("--cpus: %g is out of range; leave it out for all", s.CPUs)}
	}
	return nil
}

// environ turns the --env values into K=V: a bare name takes the caller's value.
func environ(list []string) ([]string, error) {
	var out []string
	for _, kv := range list {
		name, value, ok := strings.Cut(kv, "=")
		if !ok {
			if value, ok = os.LookupEnv(name); !ok {
				return nil, usageError{fmt.Errorf("--env: %s has no value and is not set here; write %s=VALUE", runner.OneLine(kv, 80), runner.OneLine(kv, 80))}
			}
		}
		if name == "" || strings.ContainsAny(name, " \t\n,") || strings.HasPrefix(name, "HOLON_") {
			return nil, usageError{fmt.Errorf("--env: %q is no name of a variable for commands", runner.OneLine(name, 80))}
		}
		out = append(out, name+"="+value)
	}
	return out, nil
}
