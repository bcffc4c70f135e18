// Package settings reads what a person, a project and an environment have set
// for runs on this host, and writes the person's own file.
//
//	built-in ◀ config.json of HOLON_HOME ◀ .holon/config.yaml of the project ◀ environment ◀ flags
//
// Every setting is one entry of one table (keys.go) with its name, variable, type and rule for projects.
// Files, variables, the schema and the commands that show and change settings all use that table, so they
// know the same keys.
//
// The invariant: a project's file, which comes with a repository, can neither choose a provider, an endpoint
// or a key, nor loosen what confines an agent. No setting is a secret: keys are credentials (package
// runner/credentials), and settings only name their sources. Reading writes nothing.
package settings

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"holon/internal/providers"
	"holon/runner/engine"
)

// Defaults, and values of settings that are words.
const (
	DefaultImage     = "holon/base:latest"
	DefaultModel     = providers.OpenAI + "/gpt-5"
	defaultTimeout   = time.Hour
	DefaultMaxRounds = 200
	EngineAuto       = "auto"
	EngineDocker     = "docker"
	EngineLocal      = "local"
	defaultAgent     = "main"
	authAuto         = "auto"
	authRequired     = "required"
	authDisabled     = "disabled"
)

// Settings are all settings, merged. Where [Default] has no value, a zero value stands for the default of the
// package that uses the setting.
type Settings struct {
	ModelSettings
	ContainerSettings
	TurnSettings
	DiskSettings
	TokenSettings
	AgentSettings
	ControlSettings

	Budget    ModelBudget
	Catalog   map[string]*Facts // by model reference
	Unknown   Unknown
	Providers map[string]*Provider // those that something is set for; see Provider
}

// ModelSettings say which models a run asks.
type ModelSettings struct {
	Model           string   // provider/model; "" until one is chosen
	Fallbacks       []string // asked in order when Model fails before it says anything
	DisableFallback bool
	RetryFor        time.Duration // how long a turn waits for them; 0: not at all
}

// ContainerSettings describe the container, and how far it is isolated.
type ContainerSettings struct {
	Image            string
	Engine           string // auto, docker or local
	Memory           Size
	CPUs             float64
	Network          string
	User             string   // UID:GID of the container
	ContainerUIDs    string   // user ids of root's containers, FIRST-LAST
	ContainerRuntime string   // what runs containers in the engine
	AcceptWeaker     []string // axes of the isolation
	AllowHosts       []string // that the agent may reach
}

// TurnSettings say what a turn starts from and what bounds it.
type TurnSettings struct {
	IncludeDirty    bool
	AllowAlternates []string      // directories that repositories may borrow objects from
	Skills          []string      // folders, or names of installed skills
	Timeout         time.Duration // of a turn
	MaxRounds       int
	MaxToolCalls    int  // 0: no bound
	MaxOutput       Size // that a turn may leave in its output directory
}

// DiskSettings bound the use of the disk.
type DiskSettings struct {
	RunDisk Size // what one run may write
	MaxDisk Size // what HOLON_HOME may have for a run to be started
	MinFree Size // what must be free on its disk for that
}

// TokenSettings bound what models answer and what they are shown, in tokens.
type TokenSettings struct {
	MaxOutputTokens         int // of one answer of a model
	DefaultToolOutputTokens int
	MaxToolOutputTokens     int
}

// keyDefaultToolOutput is the key that Validate finds fault with.
const keyDefaultToolOutput = "runtime.default_tool_output_tokens"

// Validate says what is wrong with the default for a tool's output, "" if it is within the limit.
func (t TokenSettings) Validate() (what string) {
	const most, otherwise = 64_000, 8_000 // agentd's own limit and default
	limit := cmp.Or(t.MaxToolOutputTokens, most)
	if cmp.Or(t.DefaultToolOutputTokens, otherwise) > limit {
		return fmt.Sprintf("is more than runtime.max_tool_output_tokens, %d", limit)
	}
	return ""
}

// AgentSettings are about long-lived agents: their containers, and how long their history is kept.
type AgentSettings struct {
	Agent         string        // the default agent
	IdlePause     time.Duration // until the container of an agent is paused
	IdleStop      time.Duration // until it is removed
	MaxContainers int
	EventsDays    int   // how long events are kept
	MaxEvents     int64 // of one agent
	MessagesDays  int   // how long messages are kept after they are handled
	MaxTurnFiles  Size  // what the directories of one agent's turns may have, whatever its record needs
	Reminder      ReminderSettings
}

// ReminderSettings say when a model is reminded of the work item that its agent works on.
type ReminderSettings struct {
	Rounds         int // without a change of a work item
	CooldownRounds int // until the next reminder
	MaxTokens      int // of a reminder
}

// ControlSettings say how the control plane is reached.
type ControlSettings struct {
	HTTPAddr        string // HOST:PORT of the control plane; "": no TCP
	CallbackBaseURL string // under which others reach it
	AuthMode        string // auto, required or disabled
}

// ModelBudget bounds the use of models by a run; 0 is unlimited.
type ModelBudget struct {
	MaxTokens   int64
	MaxRequests int64
	MaxCost     Money
}

// Facts are the known properties of a model; 0 where unknown.
type Facts struct {
	ContextWindow   int // tokens
	MaxOutputTokens int

	// Prices of a million tokens. nil is an unknown price, 0 a model that costs nothing.
	Input, CachedInput, CacheWrite, Output *Money
}

// Unknown are the assumed properties of unknown models.
type Unknown struct {
	ContextWindow   int
	MaxOutputTokens int
}

// Provider describes how to reach a provider.
type Provider struct {
	Name        string
	Contract    providers.Contract
	BaseURL     string
	KeyOptional bool // it may want no key
	Credential  Credential
	Whole       bool // answers come as one JSON object instead of a stream
	Images      bool
	Omit        []string // keys that it refuses, in addition to the known ones
	AllowHosted []string // what it may do itself for a turn
	IdleTimeout time.Duration
	Timeout     time.Duration
	Builtin     bool // the table of package models has it
}

// Sources of the key of a provider.
const (
	SourceAuto    = ""                // the environment if it is there, else the profile of the provider's name
	SourceEnv     = "env"             // the variable Env
	SourceFile    = "credential_file" // the profile Profile of the credentials file
	SourceCommand = "command"         // what Command prints
	SourceNone    = "none"            // it wants none
)

// Kinds of a key: how it is sent.
const (
	KindAPIKey = "api_key"      // as the provider's contract has it
	KindBearer = "bearer_token" // as a bearer token, regardless of the contract
)

// Credential says where the key of a provider comes from.
type Credential struct {
	Source  string   // one of the Source constants
	Env     string   // variable; by default X_API_KEY of provider x
	Profile string   // by default the provider's name
	Command []string // program and arguments, run without a shell
	Kind    string   // one of the Kind constants; "" is KindAPIKey
}

// Default returns the settings that hold where nothing is set.
func Default() Settings {
	return Settings{
		ContainerSettings: ContainerSettings{Image: DefaultImage, Engine: EngineAuto, Network: engine.NetworkNone},
		TurnSettings: TurnSettings{IncludeDirty: true, Timeout: defaultTimeout, MaxRounds: DefaultMaxRounds,
			MaxOutput: "4g"},
		ModelSettings: ModelSettings{RetryFor: 30 * time.Minute},
		DiskSettings:  DiskSettings{RunDisk: "10g", MinFree: "256m"},
		AgentSettings: AgentSettings{Agent: defaultAgent, IdlePause: time.Minute, IdleStop: 15 * time.Minute,
			MaxContainers: 16, EventsDays: 30, MaxEvents: 200_000, MessagesDays: 180,
			Reminder: ReminderSettings{Rounds: 10, CooldownRounds: 10, MaxTokens: 512}},
		ControlSettings: ControlSettings{AuthMode: authAuto},
		Catalog:         make(map[string]*Facts), Providers: make(map[string]*Provider),
	}
}

// Provider returns the provider of that name: as it is set, or built in, or else one that speaks Chat
// Completions and has no endpoint. known is false for the last.
func (s *Settings) Provider(name string) (p Provider, known bool) {
	if set := s.Providers[name]; set != nil {
		p = *set
		known = true
	} else {
		p = newProvider(name)
		known = p.Builtin
	}
	if !p.Builtin && p.BaseURL != "" {
		p.KeyOptional = true // a private server may need no key
	}
	return p, known
}

// ProviderNames returns the providers that are built in or set, sorted.
func (s *Settings) ProviderNames() []string {
	names := slices.Collect(maps.Keys(s.Providers))
	for _, p := range providers.Builtin() {
		names = append(names, p.Name)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

func newProvider(name string) Provider {
	if p, ok := providers.Find(name); ok {
		return Provider{
			Name: name, Contract: p.Contract, BaseURL: p.BaseURL, KeyOptional: p.KeyOptional,
			Images: p.Dialect.Images || p.Contract != providers.ChatCompletions, Builtin: true,
		}
	}
	return Provider{Name: name, Contract: providers.ChatCompletions}
}

// provider returns the entry of a provider in the settings, which it creates if needed.
func (s *Settings) provider(name string) *Provider {
	if s.Providers[name] == nil {
		p := newProvider(name)
		s.Providers[name] = &p
	}
	return s.Providers[name]
}

// facts returns the entry of a model in the catalog, which it creates if needed.
func (s *Settings) facts(ref string) *Facts {
	if s.Catalog[ref] == nil {
		s.Catalog[ref] = new(Facts)
	}
	return s.Catalog[ref]
}

// Window returns the window of a model, and whether it was set, is known, or is the assumed one of an unknown model.
func (s *Settings) Window(ref string) (w providers.Window, from WindowFrom) {
	w, from = providers.Windows{}.Of(ref), WindowKnown
	context, output := 0, 0
	if !providers.HasWindow(ref) {
		from, context, output = WindowAssumed, s.Unknown.ContextWindow, s.Unknown.MaxOutputTokens
	}
	if f := s.Catalog[ref]; f != nil && (f.ContextWindow > 0 || f.MaxOutputTokens > 0) {
		from = WindowSet
		context, output = cmp.Or(f.ContextWindow, context), cmp.Or(f.MaxOutputTokens, output)
	}
	w.Context, w.Output = cmp.Or(context, w.Context), cmp.Or(output, w.Output)
	if w.Context > 0 && w.Output >= w.Context {
		w.Output = max(1, w.Context/4)
	}
	return w, from
}

// WindowFrom says where a window comes from.
type WindowFrom string

// Values of WindowFrom.
const (
	WindowSet     WindowFrom = "set"
	WindowKnown   WindowFrom = "known"
	WindowAssumed WindowFrom = "assumed"
)

// Refs returns the models that a run asks: the default, then its fallbacks.
func (s *Settings) Refs() []string {
	refs := []string{cmp.Or(s.Model, DefaultModel)}
	if !s.DisableFallback {
		refs = append(refs, s.Fallbacks...)
	}
	return refs
}
