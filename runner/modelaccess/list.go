package modelaccess

import (
	"slices"
	"strconv"

	"holon/internal/providers"
	"holon/runner/credentials"
	"holon/runner/settings"
	"holon/state"
)

// Model is a model that can be named, as far as anything is known of it.
type Model struct {
	Ref             string              `json:"ref"`
	Provider        string              `json:"provider"`
	Contract        string              `json:"contract"`
	Role            string              `json:"role"` // default, fallback 1, …; "" for neither
	ContextWindow   int                 `json:"context_window"`
	MaxOutputTokens int                 `json:"max_output_tokens"`
	Window          settings.WindowFrom `json:"window"`     // where the two come from
	Credential      *credentials.Where  `json:"credential"` // null: there is none
	Ready           bool                `json:"ready"`      // endpoint and key are there
	Problem         *state.Failure      `json:"problem"`    // why it is not ready
	Price           *Price              `json:"price"`      // null: neither set nor in the list
}

// Price is what a million tokens cost.
type Price struct {
	Input       *settings.Money `json:"input"`
	CachedInput *settings.Money `json:"cached_input"`
	CacheWrite  *settings.Money `json:"cache_write"`
	Output      *settings.Money `json:"output"`
	ListOf      string          `json:"list_of"` // date of the list prices; "": it is set in models.catalog
}

// Models returns the models that are set: the default, its fallbacks, those of
// models.catalog.
func (h *Host) Models() (list []Model) {
	refs := h.Settings.Refs()
	chosen := len(refs)
	for _, ref := range settings.SortedKeys(h.Settings.Catalog) {
		if !slices.Contains(refs, ref) {
			refs = append(refs, ref)
		}
	}
	for i, ref := range refs {
		m := h.model(ref)
		switch {
		case i == 0:
			m.Role = "default"
		case i < chosen:
			m.Role = "fallback " + strconv.Itoa(i)
		}
		list = append(list, m)
	}
	return list
}

func (h *Host) model(ref string) Model {
	name, _, _ := providers.SplitRef(ref)
	w, from := h.Settings.Window(ref)
	m := Model{Ref: ref, Provider: name, ContextWindow: w.Context, MaxOutputTokens: w.Output, Window: from}
	if name == providers.Scripted {
		m.Contract, m.Ready, m.Window = providers.Scripted, true, settings.WindowKnown
		return m
	}
	p := h.describe(name)
	m.Contract, m.Credential, m.Ready, m.Problem = p.Contract, p.Credential, p.Ready, p.Problem
	m.Price = h.Price(ref)
	return m
}

// Provider is a provider, and whether it can be asked.
type Provider struct {
	Name       string             `json:"name"`
	Contract   string             `json:"contract"`
	BaseURL    string             `json:"base_url"`
	Builtin    bool               `json:"builtin"`
	Set        bool               `json:"set"` // something is set for it
	Credential *credentials.Where `json:"credential"`
	Ready      bool               `json:"ready"`
	Problem    *state.Failure     `json:"problem"`
}

// Providers returns all providers that are built in or set.
func (h *Host) Providers() (list []Provider) {
	for _, name := range h.Settings.ProviderNames() {
		list = append(list, h.describe(name))
	}
	return list
}

// Provider returns one provider, or an error with CodeUnknownProvider.
func (h *Host) Provider(name string) (Provider, error) {
	if !slices.Contains(h.Settings.ProviderNames(), name) {
		return Provider{}, &state.Error{Code: CodeUnknownProvider, Param: "NAME",
			Message: "no provider has that name", Hint: "see holon providers list"}
	}
	return h.describe(name), nil
}

func (h *Host) describe(name string) Provider {
	set, _ := h.Settings.Provider(name)
	p := Provider{Name: name, Contract: string(set.Contract), BaseURL: set.BaseURL, Builtin: set.Builtin,
		Set: h.Settings.Providers[name] != nil}
	if _, err := h.provider(name, "--model"); err != nil {
		p.Problem = failure(err)
		return p
	}
	w, _, err := h.Keys.Source(set)
	p.Problem, p.Ready = failure(err), err == nil
	if p.Ready {
		p.Credential = &w
	}
	return p
}
