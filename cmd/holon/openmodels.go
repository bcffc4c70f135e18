package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"

	"holon/internal/providers"
	"holon/internal/redact"
	"holon/internal/scenario"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner"
	"holon/runner/credentials"
	"holon/runner/gateway"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/state"
)

// keysOf are the keys that a home has stored and the environment holds, and that secrets takes out of output.
func keysOf(home state.Home, secrets *redact.Set) *credentials.Keys {
	keys := &credentials.Keys{Environ: os.Environ(), Secrets: secrets}
	if home != (state.Home{}) {
		keys.Store = credentials.StoreIn(home)
	}
	return keys
}

// modelsOf is how models are asked with the settings and keys of a home.
func modelsOf(home state.Home, s *settings.Settings, keys *credentials.Keys, log *slog.Logger) *modelaccess.Host {
	h := &modelaccess.Host{Settings: s, Keys: keys, Proxy: http.ProxyFromEnvironment, Log: log}
	if home != (state.Home{}) {
		h.Total = gateway.OpenTotal(home.SpendingPath(),
			gateway.Budget{MaxTokens: s.Budgets.DayTokens, MaxCost: gateway.Amount(s.Budgets.DayCost)},
			gateway.Budget{MaxTokens: s.Budgets.AllTokens, MaxCost: gateway.Amount(s.Budgets.AllCost)}, log)
	}
	return h
}

// models is how models are asked from this directory.
func (h *host) models(home state.Home) *modelaccess.Host {
	return modelsOf(home, &h.load(home, ".").Settings, keysOf(home, nil), nil)
}

// openModels makes what asks the models of refs part of a session: which gateway
// they need, or which scenario file. The access lasts as long as the session.
func openModels(ctx context.Context, host *modelaccess.Host, refs []string, cfg *runner.Config) (*modelaccess.Access,
	error) {
	access, err := host.Open(ctx, refs, "--model")
	if err != nil {
		return nil, err
	}
	cfg.Model, cfg.Fallbacks, cfg.Gateway, cfg.Providers, cfg.AgentEnv = refs[0], refs[1:], access.Gateway,
		access.Contracts, access.Env
	for i, ref := range refs {
		provider, name, _ := providers.SplitRef(ref)
		if provider != providers.Scripted {
			continue
		}
		if i > 0 {
			err = checkFallback(ref)
		} else {
			cfg.Scenario, err = findScenario(name)
		}
		if err != nil {
			return nil, errors.Join(err, access.Close())
		}
	}
	return access, nil
}

// findScenario finds the file that a scripted model plays, "" for "demo", which is built in. It refuses one that cannot
// be played.
func findScenario(name string) (string, error) {
	if name == demoScenario {
		return "", nil
	}
	shown := visible.OneLine(name, 200)
	why := fmt.Sprintf("there is no scenario file %q", shown)
	if dir, err := os.Getwd(); err == nil && !filepath.IsAbs(name) {
		why += " in " + visible.OneLine(dir, 500)
	}
	for _, file := range scenario.FileNames(name) {
		path, err := filepath.Abs(file)
		if err == nil {
			path, err = filepath.EvalSymlinks(path)
		}
		if err != nil {
			continue
		}
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, checkScenario(path)
		}
		why = fmt.Sprintf("%q is not a file", shown)
	}
	return "", &state.Error{Code: modelaccess.CodeNoScenario, Param: "--model", Message: why,
		Hint: "name a YAML file, or use scripted/demo"}
}

func checkScenario(path string) error {
	f, err := os.Open(path)
	if err == nil {
		defer f.Close()
		var data []byte
		if data, err = io.ReadAll(io.LimitReader(f, scenario.MaxFile+1)); err == nil {
			_, err = scenario.Parse(path, data)
		}
	}
	if err == nil {
		return nil
	}
	return &state.Error{Code: responses.CodeScenarioInvalid, Param: "--model",
		Message: fmt.Sprintf("scenario %s: %s", visible.OneLine(path, 500), visible.OneLine(err.Error(), 600)),
		Hint:    "mend the file; docs/reference/scripted-model.md has its keys"}
}

// scenarioFromHere names the file of a scripted model as a daemon, which runs in another directory, finds it.
func scenarioFromHere(ref string) string {
	provider, name, _ := providers.SplitRef(ref)
	path, err := filepath.Abs(name)
	if provider != providers.Scripted || name == "" || name == demoScenario || err != nil {
		return ref
	}
	return providers.Scripted + "/" + path
}

// checkFallback refuses a scenario that is asked after another model: a container is given the file of the first one.
func checkFallback(ref string) error {
	provider, name, _ := providers.SplitRef(ref)
	if provider != providers.Scripted || name == demoScenario {
		return nil
	}
	return &state.Error{Code: modelaccess.CodeInvalidReference, Param: "--model-fallbacks",
		Message: fmt.Sprintf("%q is a scenario file", visible.OneLine(ref, 200)),
		Hint:    "a scenario can only be the first model; the fallback can be scripted/demo"}
}

// checkModel refuses a model that cannot be asked, without asking it.
func checkModel(host *modelaccess.Host, ref string) error {
	provider, name, ok := providers.SplitRef(ref)
	switch {
	case !ok || provider != providers.Scripted && !providers.ValidName(provider):
		return &state.Error{Code: modelaccess.CodeInvalidReference, Param: "--model",
			Message: fmt.Sprintf("%q is not a model reference", visible.OneLine(ref, 100)),
			Hint:    "write provider/name, for example " + settings.DefaultModel}
	case provider == providers.Scripted:
		_, err := findScenario(name)
		return err
	}
	_, err := host.Ready(ref)
	return err
}
