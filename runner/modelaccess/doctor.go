package modelaccess

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"holon/internal/providers"
	"holon/runner/settings"
	"holon/state"
)

// Finding is something that the doctor has to say.
type Finding struct {
	Level   Level  `json:"level"`
	Source  string `json:"source"` // file, variable, provider or model
	Key     string `json:"key"`
	Message string `json:"message"`
	Hint    string `json:"hint"`
}

// Level says how bad a finding is.
type Level string

// The levels.
const (
	Wrong   Level = "error"   // a run fails, or is not what was meant
	Useless Level = "warning" // it has no effect, or is not needed now
)

// Doctor looks at everything that is set, without asking any provider or running
// any program.
func (h *Host) Doctor(l *settings.Loaded) (list []Finding) {
	add := func(level Level, source, key, message, hint string) {
		list = append(list, Finding{level, source, key, message, hint})
	}
	for _, p := range l.AllProblems() {
		message := p.What
		if p.Line > 0 {
			message = fmt.Sprintf("line %d: %s", p.Line, message)
		}
		add(Wrong, p.Origin.String(), p.Key, message, p.Remedy)
	}
	h.diagnoseCredentials(add)
	h.diagnoseModels(l, add)
	h.diagnoseProviders(l, add)
	for _, e := range l.Hidden() {
		winner := l.Origin(e.Key)
		if e.Origin.Layer == settings.LayerProject &&
			(winner.Layer == settings.LayerUser || winner.Layer == settings.LayerDefault) {
			add(Useless, e.Origin.String(), e.Key,
				fmt.Sprintf("%q has no effect: a repository can only lower it", settings.Text(e.Value)),
				"set it with holon config set if you mean it")
			continue
		}
		add(Useless, e.Origin.String(), e.Key,
			fmt.Sprintf("%q has no effect: %s outweighs it", settings.Text(e.Value), winner), "remove one of the two")
	}
	return list
}

type report func(level Level, source, key, message, hint string)

// Broken reports whether any finding is an error.
func Broken(list []Finding) bool {
	return slices.ContainsFunc(list, func(f Finding) bool { return f.Level == Wrong })
}

func (h *Host) diagnoseCredentials(add report) {
	profiles, err := h.Keys.Store.List()
	if err != nil {
		f := failure(err)
		add(Wrong, f.Param, "", f.Message, f.Hint)
		return
	}
	used := make(map[string]bool)
	for _, name := range h.Settings.ProviderNames() {
		p, _ := h.Settings.Provider(name)
		if w, found, err := h.Keys.Locate(p); err == nil && found && w.Source == settings.SourceFile {
			used[w.Name] = true
		}
	}
	for _, profile := range profiles {
		if !used[profile.Name] {
			add(Useless, h.Keys.Store.Path(), profile.Name,
				"no provider uses the profile, or its variable outweighs it", "holon credentials remove "+profile.Name)
		}
	}
}

func (h *Host) diagnoseModels(l *settings.Loaded, add report) {
	for _, m := range h.Models() {
		role := m.Role
		if role == "" {
			role = "models.catalog"
		}
		level := Wrong
		if m.Role == "" || m.Role == "default" && h.Settings.Model == "" {
			level = Useless // no setting asks for it
		}
		if m.Problem != nil {
			add(level, m.Ref, role, about(m.Problem), m.Problem.Hint)
		}
		if limit := h.costLimit(); limit != "" && m.Role != "" && m.Price == nil && m.Provider != providers.Scripted {
			add(Wrong, m.Ref, limit, "there is no price for the model, so that its cost can't be bounded",
				fmt.Sprintf("holon config set models.catalog.%s.price.input AMOUNT, and .price.output", m.Ref))
		}
	}
	if h.Settings.DisableFallback && len(h.Settings.Fallbacks) > 0 {
		add(Useless, l.Origin("model.fallbacks").String(), "model.fallbacks",
			"has no effect while runtime.disable_provider_fallback is true", "remove one of the two")
	}
}

// about is a failure in one line: the setting, then what is wrong.
func about(f *state.Failure) string {
	if f.Param == "" {
		return f.Message
	}
	return f.Param + ": " + f.Message
}

func (h *Host) diagnoseProviders(l *settings.Loaded, add report) {
	asked := settings.ProvidersOf(h.Settings.Refs())
	for _, name := range settings.SortedKeys(h.Settings.Providers) {
		p, _ := h.Settings.Provider(name)
		key := "providers." + name
		if d := h.describe(name); d.Problem != nil && !slices.Contains(asked, name) {
			add(Useless, name, key, about(d.Problem), d.Problem.Hint)
		}
		c := p.Credential
		for _, set := range []struct {
			field, source string
			given         bool
		}{
			{"env", settings.SourceEnv, c.Env != ""}, {"profile", settings.SourceFile, c.Profile != ""},
			{"command", settings.SourceCommand, len(c.Command) > 0},
		} {
			if field := key + ".credential." + set.field; set.given && c.Source != settings.SourceAuto &&
				c.Source != set.source {
				add(Useless, l.Origin(field).String(), field, "has no effect while credential.source is "+c.Source,
					"set the source to "+set.source+", or unset this")
			}
		}
		if p.Contract != providers.ChatCompletions {
			for _, field := range []string{key + ".images", key + ".omit"} {
				if origin := l.Origin(field); origin.Layer != settings.LayerDefault {
					add(Useless, origin.String(), field,
						"has no effect: it is for providers that speak "+string(providers.ChatCompletions), "unset it")
				}
			}
		}
	}
}

// failure returns what a person should read of an error, nil for none.
func failure(err error) *state.Failure {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*state.Error](err); ok {
		return &state.Failure{Code: string(e.Code), Message: e.Error(), Param: e.Param, Hint: e.Hint}
	}
	code := "internal_error"
	if errors.Is(err, fs.ErrPermission) {
		code = "permission"
	}
	return &state.Failure{Code: code, Message: err.Error()}
}

// costLimit is the setting that bounds costs, the first of several; "" where none does.
func (h *Host) costLimit() string {
	s := h.Settings
	switch {
	case s.Budget.MaxCost > 0:
		return "budgets.run.max_cost"
	case s.Budgets.AgentCost > 0:
		return "budgets.agent.max_cost"
	case s.Budgets.DayCost > 0:
		return "budgets.day.max_cost"
	case s.Budgets.AllCost > 0:
		return "budgets.all.max_cost"
	}
	return ""
}
