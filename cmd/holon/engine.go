package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"holon/internal/visible"
	"holon/runner"
	"holon/runner/engine"
	"holon/runner/engine/docker"
	"holon/runner/engine/kubernetes"
	"holon/runner/engine/local"
	"holon/runner/settings"
	"holon/state"
)

// findAgentd returns the agentd that goes into containers: HOLON_AGENTD, or the
// one next to this program, or that of an installation (PREFIX/libexec/holon).
func findAgentd(named string) (string, error) {
	path := named
	if path == "" {
		self, err := os.Executable()
		if err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
		if self, err = filepath.EvalSymlinks(self); err != nil {
			return "", fmt.Errorf("find this program: %w", err)
		}
		path = filepath.Join(filepath.Dir(self), "agentd")
		if _, err := os.Stat(path); err != nil {
			path = filepath.Join(filepath.Dir(filepath.Dir(self)), "libexec", "holon", "agentd")
		}
	}
	path, err := filepath.Abs(path)
	if err == nil {
		var real string
		if real, err = filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	if err == nil {
		return path, nil
	}
	e := &runner.Error{Code: "agentd_missing", Param: "HOLON_AGENTD", Err: err}
	switch {
	case named == "":
		e.Param, e.Err = "agentd", nil
		e.Message = "it is neither next to holon nor in libexec/holon of an installation, at " + path
		e.Hint = "run make build or make install, or set HOLON_AGENTD to its path"
	case errors.Is(err, fs.ErrNotExist):
		e.Err = nil
		e.Message = visible.OneLine(named, 200) + " is not there"
		e.Hint = "correct or unset HOLON_AGENTD"
	default:
		e.Message, e.Hint = visible.OneLine(named, 200)+" cannot be used", "correct or unset HOLON_AGENTD"
	}
	return "", e
}

// openEngine opens the engine that was asked for. auto means Docker: without it
// holon stops rather than run unconfined (decision 13).
func (h *host) openEngine(s *settings.Settings, streams Streams, home state.Home) (engine.Engine, error) {
	name := engineName(s.Engine)
	eng, err := h.newEngine(name, s.Link, home)
	if err == nil && name == settings.EngineLocal {
		streams.say("holon: the local engine confines nothing: the agent's commands run as you, on this machine")
	}
	return eng, err
}

// checkImage refuses an image that the engine says it cannot run. An engine that does not answer, or whose programs run
// in no image, lets any pass: the first turn fails then.
func checkImage(ctx context.Context, eng engine.Engine, image string) error {
	imager, ok := eng.(engine.Imager)
	if !ok {
		return nil
	}
	err := imager.CheckImage(ctx, image)
	if state.IsCode(err, engine.CodeImageNotFound) || state.IsCode(err, engine.CodeInvalidSpec) {
		return err
	}
	return nil
}

func engineName(set string) string {
	if set == settings.EngineLocal || set == settings.EngineKubernetes {
		return set
	}
	return settings.EngineDocker
}

// newEngine opens an engine by its name. The link is that of containers that it makes.
func (h *host) newEngine(name, link string, home state.Home) (engine.Engine, error) {
	only := map[string]string{settings.EngineLocal: engine.LinkMounts, settings.EngineKubernetes: engine.LinkStream}[name]
	if only != "" && link != only && link != engine.LinkAuto {
		return nil, &runner.Error{Code: runner.CodeUsage, Param: "link",
			Message: fmt.Sprintf("the engine %s has no %q, only %q", name, link, only),
			Hint:    "leave --link and HOLON_LINK out, or use --engine docker"}
	}
	switch name {
	case settings.EngineDocker:
		eng, err := docker.New(h.DockerHost, home.ContainersDir())
		if err != nil {
			return nil, err
		}
		eng.SetLink(link)
		return eng, nil
	case settings.EngineKubernetes:
		set := h.load(home, "")
		if err := set.Err(); err != nil {
			return nil, err
		}
		owner, err := home.Owner()
		if err != nil {
			return nil, err
		}
		return kubernetes.New(kubernetes.Options{Context: set.KubernetesContext, Namespace: set.KubernetesNamespace,
			AgentdImage: set.KubernetesAgentd, PodFile: set.KubernetesPod, Owner: owner})
	case settings.EngineLocal:
		return local.New(local.Options{Dir: localDir(home),
			Env: []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.UserHome, "LANG=C.UTF-8"}})
	}
	return nil, &runner.Error{Code: runner.CodeUsage, Param: "engine",
		Message: fmt.Sprintf("there is no engine %q", visible.OneLine(name, 40)),
		Hint:    "use the holon that started the run"}
}

func localDir(home state.Home) string { return filepath.Join(home.Dir(), "local") }
