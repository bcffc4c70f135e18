// Package modelaccess joins settings (package settings), keys (package
// credentials) and the provider table (package providers) into access to models: the gateway of a run and
// what its agentd is told, the list of models, and what is wrong with all of it.
package modelaccess

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"holon/internal/providers"
	"holon/runner/credentials"
	"holon/runner/gateway"
	"holon/runner/settings"
	"holon/state"
)

// The codes of errors.
const (
	CodeUnknownProvider  state.Code = "unknown_provider"
	CodeUnknownContract  state.Code = "unsupported_contract"
	CodeInvalidReference state.Code = "invalid_reference"
	CodeNoScenario       state.Code = "scenario_missing" // of a scripted model whose file is not there
)

// Host is what providers are made of on this machine.
type Host struct {
	Settings *settings.Settings
	Keys     *credentials.Keys
	Proxy    func(*http.Request) (*url.URL, error) // of the host, nil for none
	Log      *slog.Logger
	Total    *gateway.Total // the account of the home; nil for none
}

// Access is how the models of a run are asked.
type Access struct {
	Gateway   *gateway.Gateway // nil when no provider is called; Close it
	Contracts []string         // NAME=CONTRACT, for agentd's --providers
	Env       []string         // X_OMIT and the like, for agentd alone
}

// Open checks that each of the models can be asked, and returns how. Every model
// needs a provider with an endpoint and a key: one that is only found missing
// when it is needed, as a fallback, would be found too late. param names the
// setting at fault in errors, which are *state.Error values.
func (h *Host) Open(ctx context.Context, refs []string, param string) (*Access, error) {
	for _, ref := range refs {
		if provider, _, ok := providers.SplitRef(ref); !ok ||
			provider != providers.Scripted && !providers.ValidName(provider) {
			return nil, &state.Error{Code: CodeInvalidReference, Param: param,
				Message: fmt.Sprintf("%.100q is not a model reference", ref),
				Hint:    "write provider/name, for example " + settings.DefaultModel}
		}
	}
	names := settings.ProvidersOf(refs)
	a := &Access{}
	if len(names) == 0 {
		return a, nil
	}
	options := gateway.Options{Logger: h.Log, Providers: make(map[string]gateway.Provider, len(names))}
	options.Prices, options.Total = h.prices(refs), h.Total
	for _, name := range names {
		named := param
		if param == "--model" && !slices.Contains(settings.ProvidersOf(refs[:1]), name) {
			named = "--model-fallbacks"
		}
		p, err := h.provider(name, named)
		if err != nil {
			return nil, err
		}
		if options.Providers[name], err = h.upstream(ctx, p); err != nil {
			return nil, err
		}
		a.Contracts = append(a.Contracts, name+"="+string(p.Contract))
		a.Env = append(a.Env, agentdSettings(p)...)
	}
	if w := h.windows(refs); w != "" {
		a.Env = append(a.Env, "HOLON_MODEL_WINDOWS="+w)
	}
	var err error
	if a.Gateway, err = gateway.New(options); err != nil {
		return nil, err
	}
	return a, nil
}

// Tell returns what agentd is told of all providers that could be asked, whether they
// have a key or not: a container whose models may change. refs are asked first.
func (h *Host) Tell(refs []string) (contracts, env []string) {
	for _, name := range h.Settings.ProviderNames() {
		p, err := h.provider(name, "")
		if err != nil {
			continue // it cannot be asked before it is set otherwise
		}
		contracts = append(contracts, name+"="+string(p.Contract))
		env = append(env, agentdSettings(p)...)
	}
	if w := h.windows(slices.Concat(refs, settings.SortedKeys(h.Settings.Catalog))); w != "" {
		env = append(env, "HOLON_MODEL_WINDOWS="+w)
	}
	return contracts, env
}

// prices are those of the models that are known, for the gateway's account.
func (h *Host) prices(refs []string) gateway.Prices {
	prices := make(gateway.Prices)
	for _, ref := range refs {
		p := h.Price(ref)
		if p == nil || p.Input == nil || p.Output == nil {
			continue // half a price is none
		}
		prices[ref] = gateway.Price{
			Input: gateway.Amount(*p.Input), Output: gateway.Amount(*p.Output), ListOf: p.ListOf,
			CacheRead: (*gateway.Amount)(p.CachedInput), CacheWrite: (*gateway.Amount)(p.CacheWrite),
		}
	}
	return prices
}

// Ready returns where the key of a model's provider comes from, or why the model
// can't be asked. It starts nothing.
func (h *Host) Ready(ref string) (credentials.Where, error) {
	name, _, _ := providers.SplitRef(ref)
	p, err := h.provider(name, "--model")
	if err != nil {
		return credentials.Where{}, err
	}
	w, _, err := h.Keys.Source(p)
	return w, err
}

// Close closes the gateway. It never fails.
func (a *Access) Close() error {
	if a.Gateway != nil {
		a.Gateway.Close()
	}
	return nil
}

// windows says the windows of models where agentd would take others.
func (h *Host) windows(refs []string) string {
	var list []string
	for _, ref := range refs {
		known := providers.Windows{}.Of(ref)
		if w, _ := h.Settings.Window(ref); w.Context != known.Context || w.Output != known.Output {
			list = append(list, fmt.Sprintf("%s=%d/%d", ref, w.Context, w.Output))
		}
	}
	return strings.Join(list, ",")
}

// provider returns a provider that can be asked.
func (h *Host) provider(name, param string) (settings.Provider, error) {
	p, known := h.Settings.Provider(name)
	switch {
	case p.BaseURL == "" && !known:
		return p, &state.Error{Code: CodeUnknownProvider, Param: param,
			Message: fmt.Sprintf("the provider %q is unknown", name),
			Hint: fmt.Sprintf("choose one of holon providers list, or give it an endpoint: holon config set "+
				"providers.%s.base_url URL", name)}
	case p.BaseURL == "":
		return p, &state.Error{Code: CodeUnknownProvider, Param: providers.Setting(name, "BASE_URL"),
			Message: fmt.Sprintf("is not set, and the provider %s has no endpoint of its own", name),
			Hint:    fmt.Sprintf("set it, or holon config set providers.%s.base_url URL", name)}
	case !p.Contract.Known():
		return p, &state.Error{Code: CodeUnknownContract, Param: "providers." + name + ".contract",
			Message: fmt.Sprintf("%.60q is not supported", p.Contract),
			Hint:    "choose one of " + providers.ContractNames()}
	}
	return p, nil
}

// upstream returns what the gateway needs to know of a provider.
func (h *Host) upstream(ctx context.Context, p settings.Provider) (gateway.Provider, error) {
	up := gateway.Provider{BaseURL: p.BaseURL, Contract: p.Contract, Auth: authOf(p), AllowHosted: p.AllowHosted,
		Proxy: h.Proxy}
	where, source, err := h.Keys.Source(p)
	if err != nil {
		return up, err
	}
	if source == nil {
		up.Auth = providers.AuthNone
		up.KeyName = cmp.Or(p.Credential.Env, providers.Setting(p.Name, "API_KEY")) // that a person may set
		return up, nil
	}
	up.KeyName = where.String()
	if where.Source == settings.SourceFile {
		up.KeyCommand = "holon credentials set " + where.Name
	}
	_, err = source.Key(ctx) // what is missing is said before anything starts
	up.Credential = source
	return up, err
}

func authOf(p settings.Provider) providers.Auth {
	if p.Credential.Kind == settings.KindBearer && p.Contract.Auth() != providers.AuthChatGPT {
		return providers.AuthBearer
	}
	return p.Contract.Auth()
}

// agentdSettings are the variables that tell agentd how a provider differs from
// the built-in one of its name. The endpoint and the key stay on the host.
func agentdSettings(p settings.Provider) (env []string) {
	set := func(what, value string) { env = append(env, providers.Setting(p.Name, what)+"="+value) }
	if !p.Stream {
		set("STREAM", "false")
	}
	if known, _ := providers.Find(p.Name); p.Contract == providers.ChatCompletions && p.Images != known.Dialect.Images {
		set("IMAGES", fmt.Sprint(p.Images))
	}
	if len(p.Omit) > 0 {
		set("OMIT", strings.Join(p.Omit, ","))
	}
	if p.IdleTimeout > 0 {
		set("IDLE_TIMEOUT", p.IdleTimeout.String())
	}
	if p.Timeout > 0 {
		set("TIMEOUT", p.Timeout.String())
	}
	return env
}
