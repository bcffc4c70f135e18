// Package settings reads what a person, a project and an environment have set
// for runs on this host, and writes the person's own file.
//
//	built-in ◀ config.json of HOLON_HOME ◀ .holon/config.yaml of the project ◀ environment ◀ flags
//
// A setting is a field of [Settings]. Its tag has its key, variable and rule for projects, and schema.json says
// what it is for. Files, variables and the commands that show and change settings all use these.
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
	DefaultAgentd    = "holon/agentd:latest"
	DefaultModel     = providers.OpenAI + "/gpt-5"
	defaultTimeout   = time.Hour
	DefaultMaxRounds = 200
	EngineAuto       = "auto"
	EngineDocker     = "docker"
	EngineLocal      = "local"
	EngineKubernetes = "kubernetes"
	defaultAgent     = "main"
)

// Settings are all settings, merged. Where [Default] has no value, a zero value stands for the default of the
// package that uses the setting. schema.json describes each one.
//
// The tags are the table of settings:
//
//	key      segments joined by dots; "*" is a provider's name or a model's reference
//	env      the variable that sets it; of a provider x: what follows X_
//	project  what the file of a project may do: nothing where the tag is missing, for the key names what is run,
//	         read, asked, paid or reached, or is about the host; "lower" a limit; "free"; "folder": name paths, which
//	         stay within the repository; "agreed": what a person agreed to; any other word is the one value that may be
//
// set, the value that confines
//
//	zero     "ok" for a whole number or a duration that may be 0
type Settings struct {
	modelSettings
	Unknown unknownModels
	Catalog map[string]*facts // by model reference
	containerSettings
	kubernetesSettings
	turnSettings
	diskSettings
	tokenSettings
	agentSettings
	sessionSettings
	controlSettings
	notifySettings
	Budget    ModelBudget
	Budgets   standingBudgets
	Providers map[string]*Provider // those that something is set for; see Provider
}

// modelSettings say which models a run asks.
type modelSettings struct {
	Model           string        `key:"model.default" env:"HOLON_MODEL"` // "" until one is chosen
	Fallbacks       []string      `key:"model.fallbacks" env:"HOLON_MODEL_FALLBACKS"`
	DisableFallback bool          `key:"runtime.disable_provider_fallback" env:"HOLON_DISABLE_PROVIDER_FALLBACK"`
	RetryFor        time.Duration `key:"runtime.retry_for" env:"HOLON_RETRY_FOR" zero:"ok"` // 0: no wait
	ListPrices      bool          `key:"models.list_prices"`                                // of models without a price
}

// containerSettings describe the container, and how far it is isolated.
type containerSettings struct {
	Image            string   `key:"image" env:"HOLON_IMAGE" project:"free"`
	Engine           string   `key:"engine" env:"HOLON_ENGINE" project:"docker"`
	Link             string   `key:"link" env:"HOLON_LINK"` // how a container is reached, see engine.Links
	Memory           Size     `key:"memory" env:"HOLON_MEMORY" project:"lower"`
	CPUs             float64  `key:"cpus" env:"HOLON_CPUS" project:"lower"`
	Network          string   `key:"network" env:"HOLON_NETWORK" project:"none"`
	User             string   `key:"user" env:"HOLON_USER"`                     // UID:GID
	ContainerUIDs    string   `key:"container_uids" env:"HOLON_CONTAINER_UIDS"` // FIRST-LAST
	ContainerRuntime string   `key:"container_runtime" env:"HOLON_RUNTIME"`
	AcceptWeaker     []string `key:"accept_weaker" env:"HOLON_ACCEPT_WEAKER"` // axes of the isolation
	AllowHosts       []string `key:"allow_hosts" env:"HOLON_ALLOW_HOSTS"`
	PrivateHosts     []string `key:"private_hosts" env:"HOLON_PRIVATE_HOSTS"` // HOST:PORT=ADDRESS
	Services         []string `key:"services" project:"agreed"`               // see package service
}

// kubernetesSettings say where Pods run. Otherwise KUBECONFIG does, and the service account of a Pod.
type kubernetesSettings struct {
	KubernetesContext   string `key:"kubernetes_context" env:"HOLON_KUBERNETES_CONTEXT"`
	KubernetesNamespace string `key:"kubernetes_namespace" env:"HOLON_KUBERNETES_NAMESPACE"`
	KubernetesAgentd    string `key:"kubernetes_agentd_image" env:"HOLON_KUBERNETES_AGENTD_IMAGE"`
	KubernetesPod       string `key:"kubernetes_pod" env:"HOLON_KUBERNETES_POD"` // file with a template
}

// turnSettings say what a turn starts from and what bounds it.
type turnSettings struct {
	IncludeDirty    bool          `key:"include_dirty" env:"HOLON_INCLUDE_DIRTY" project:"false"`
	IncludeIgnored  []string      `key:"include_ignored" env:"HOLON_INCLUDE_IGNORED"`
	AllowAlternates []string      `key:"allow_alternates" env:"HOLON_ALLOW_ALTERNATES"`
	WorkspaceRoots  []string      `key:"workspace_roots" env:"HOLON_WORKSPACE_ROOTS"`
	Skills          []string      `key:"skills" env:"HOLON_SKILLS" project:"folder"`
	Timeout         time.Duration `key:"timeout" env:"HOLON_TIMEOUT" project:"lower"`
	MaxRounds       int           `key:"max_rounds" env:"HOLON_MAX_ROUNDS" project:"lower"`
	MaxToolCalls    int           `key:"max_tool_calls" env:"HOLON_MAX_TOOL_CALLS" project:"lower" zero:"ok"`
	MaxOutput       Size          `key:"max_output_bytes" env:"HOLON_MAX_OUTPUT_BYTES" project:"lower"`
}

// diskSettings bound the use of the disk.
type diskSettings struct {
	RunDisk Size `key:"disk" env:"HOLON_RUN_DISK" project:"lower"` // what one run may write
	MaxDisk Size `key:"max_disk" env:"HOLON_MAX_DISK"`             // what HOLON_HOME may have for a run to be started
	MinFree Size `key:"min_free" env:"HOLON_MIN_FREE"`             // what must be free on its disk for that
}

// tokenSettings bound what models answer and what they are shown, in tokens.
type tokenSettings struct {
	MaxOutputTokens         int `key:"runtime.max_output_tokens" env:"HOLON_MAX_OUTPUT_TOKENS"`
	DefaultToolOutputTokens int `key:"runtime.default_tool_output_tokens" env:"HOLON_DEFAULT_TOOL_OUTPUT_TOKENS"`
	MaxToolOutputTokens     int `key:"runtime.max_tool_output_tokens" env:"HOLON_MAX_TOOL_OUTPUT_TOKENS"`
}

// keyDefaultToolOutput is the key that Validate finds fault with.
const keyDefaultToolOutput = "runtime.default_tool_output_tokens"

// Validate says what is wrong with the default for a tool's output, "" if it is within the limit.
func (t tokenSettings) Validate() (what string) {
	const most, otherwise = 64_000, 8_000 // agentd's own limit and default
	limit := cmp.Or(t.MaxToolOutputTokens, most)
	if cmp.Or(t.DefaultToolOutputTokens, otherwise) > limit {
		return fmt.Sprintf("is more than runtime.max_tool_output_tokens, %d", limit)
	}
	return ""
}

// agentSettings are about long-lived agents: their containers, and how long their history is kept.
type agentSettings struct {
	Agent         string        `key:"agent.default" env:"HOLON_AGENT_ID"`
	Ledger        string        `key:"ledger" env:"HOLON_LEDGER"` // URL of a database; "": a file in HOLON_HOME
	Store         string        `key:"store" env:"HOLON_STORE"`   // URL of a bucket; "": files are in HOLON_HOME alone
	IdlePause     time.Duration `key:"runtime.idle_pause" env:"HOLON_IDLE_PAUSE"`
	IdleStop      time.Duration `key:"runtime.idle_stop" env:"HOLON_IDLE_STOP"`
	MaxContainers int           `key:"runtime.max_containers" env:"HOLON_MAX_CONTAINERS"`
	EventsDays    int           `key:"runtime.retention.events_days"`
	MaxEvents     int64         `key:"runtime.retention.max_events"` // of one agent
	MessagesDays  int           `key:"runtime.retention.messages_days"`
	MaxTurnFiles  Size          `key:"runtime.retention.max_turn_files" env:"HOLON_MAX_TURN_FILES"`
	Reminder      reminderSettings

	// ConversationBudget is in tokens; 0: no bound but the model's window.
	ConversationBudget int64 `key:"runtime.conversation_budget" env:"HOLON_CONVERSATION_BUDGET" zero:"ok"`
}

// reminderSettings say when a model is reminded of the work item that its agent works on.
type reminderSettings struct {
	Rounds int `key:"runtime.work_item_stale_reminder.rounds" env:"HOLON_WORK_ITEM_STALE_REMINDER_ROUNDS"`
	Tokens int `key:"runtime.work_item_stale_reminder.max_tokens" env:"HOLON_WORK_ITEM_STALE_REMINDER_MAX_TOKENS"`

	// Pause is in rounds.
	Pause int `key:"runtime.work_item_stale_reminder.cooldown_rounds" env:"HOLON_WORK_ITEM_STALE_REMINDER_COOLDOWN_ROUNDS"`
}

// sessionSettings are about the sessions of clients, and what agents wait for of clients.
type sessionSettings struct {
	MaxSessions       int           `key:"sessions.max" env:"HOLON_MAX_SESSIONS"` // open at once
	SessionPause      time.Duration `key:"sessions.pause" env:"HOLON_SESSION_PAUSE"`
	SessionStop       time.Duration `key:"sessions.stop" env:"HOLON_SESSION_STOP"`
	SessionTTL        time.Duration `key:"sessions.ttl" env:"HOLON_SESSION_TTL"`
	TokenSessions     int           `key:"sessions.per_token.max" env:"HOLON_TOKEN_MAX_SESSIONS"` // 0: half of MaxSessions
	TokenTurns        int           `key:"sessions.per_token.max_turns" env:"HOLON_TOKEN_MAX_TURNS"`
	TokenTokens       int64         `key:"sessions.per_token.max_tokens" env:"HOLON_TOKEN_MAX_TOKENS"`
	TokenCost         Money         `key:"sessions.per_token.max_cost" env:"HOLON_TOKEN_MAX_COST"`
	TokenDisk         Size          `key:"sessions.per_token.max_disk" env:"HOLON_TOKEN_MAX_DISK"`
	ClientCallTimeout time.Duration `key:"runtime.client_call_timeout" env:"HOLON_CLIENT_CALL_TIMEOUT"`
}

// controlSettings say how the control plane is reached.
type controlSettings struct {
	HTTPAddr        string `key:"control.http_addr" env:"HOLON_HTTP_ADDR"` // HOST:PORT; "": no TCP
	CallbackBaseURL string `key:"control.callback_base_url" env:"HOLON_CALLBACK_BASE_URL"`
	AuthMode        string `key:"control.auth_mode" env:"HOLON_CONTROL_AUTH_MODE"`
	TokensFile      string `key:"control.tokens_file" env:"HOLON_TOKENS_FILE"` // "": no tokens of others
}

// notifySettings say how the operator is notified on this host. Other ways are bindings of agents.
type notifySettings struct {
	NotifyCommand []string `key:"notify.command"` // program and arguments, run without a shell
	NotifyDesktop bool     `key:"notify.desktop"`
}

// ModelBudget bounds the use of models by a run; 0 is unlimited.
type ModelBudget struct {
	MaxTokens   int64 `key:"budgets.run.max_tokens" env:"HOLON_MAX_TOKENS" project:"lower"`
	MaxRequests int64 `key:"budgets.run.max_requests" env:"HOLON_MAX_REQUESTS" project:"lower"`
	MaxCost     Money `key:"budgets.run.max_cost" env:"HOLON_MAX_COST" project:"lower"`
}

// standingBudgets bound the use of models by more than one run; 0 is unlimited.
type standingBudgets struct {
	AgentTokens int64 `key:"budgets.agent.max_tokens"` // of an agent and its children, where none of their own is set
	AgentCost   Money `key:"budgets.agent.max_cost"`
	DayTokens   int64 `key:"budgets.day.max_tokens"` // of everything on this host, in a day of UTC
	DayCost     Money `key:"budgets.day.max_cost"`
	AllTokens   int64 `key:"budgets.all.max_tokens"` // of everything on this host
	AllCost     Money `key:"budgets.all.max_cost"`
}

// facts are the properties of a model that are set; 0 where unknown.
type facts struct {
	ContextWindow   int `key:"models.catalog.*.context_window"` // tokens
	MaxOutputTokens int `key:"models.catalog.*.max_output_tokens"`

	// Prices of a million tokens. nil is an unknown price, 0 a model that costs nothing.
	Input       *Money `key:"models.catalog.*.price.input"`
	CachedInput *Money `key:"models.catalog.*.price.cached_input"`
	CacheWrite  *Money `key:"models.catalog.*.price.cache_write"`
	Output      *Money `key:"models.catalog.*.price.output"`
}

// unknownModels are the assumed properties of unknown models.
type unknownModels struct {
	ContextWindow   int `key:"model.unknown_fallback.context_window_tokens"`
	MaxOutputTokens int `key:"model.unknown_fallback.runtime_max_output_tokens"`
}

// Provider describes how to reach a provider.
type Provider struct {
	Name        string
	Contract    providers.Contract `key:"providers.*.contract"`
	BaseURL     string             `key:"providers.*.base_url" env:"BASE_URL"`
	KeyOptional bool               // it may want no key
	Credential  Credential
	Stream      bool          `key:"providers.*.stream" env:"STREAM"` // false: answers come as one JSON object
	Images      bool          `key:"providers.*.images" env:"IMAGES"` // its models take pictures
	Omit        []string      `key:"providers.*.omit" env:"OMIT"`     // keys that it refuses
	AllowHosted []string      `key:"providers.*.allow_hosted"`        // what it may do itself for a turn
	IdleTimeout time.Duration `key:"providers.*.idle_timeout" env:"IDLE_TIMEOUT"`
	Timeout     time.Duration `key:"providers.*.timeout" env:"TIMEOUT"` // of one attempt
	Builtin     bool          // the table of package providers has it
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
	kindAPIKey = "api_key"      // as the provider's contract has it
	KindBearer = "bearer_token" // as a bearer token, regardless of the contract
)

// Credential says where the key of a provider comes from.
type Credential struct {
	Source  string   `key:"providers.*.credential.source"`  // one of the Source constants
	Env     string   `key:"providers.*.credential.env"`     // variable; by default X_API_KEY of provider x
	Profile string   `key:"providers.*.credential.profile"` // by default the provider's name
	Command []string `key:"providers.*.credential.command"` // program and arguments, run without a shell
	Kind    string   `key:"providers.*.credential.kind"`    // one of the Kind constants; "" is KindAPIKey
}

// Default returns the settings that hold where nothing is set.
func Default() Settings {
	return Settings{
		containerSettings: containerSettings{Image: DefaultImage, Engine: EngineAuto, Link: engine.LinkAuto,
			Network: engine.NetworkNone},
		kubernetesSettings: kubernetesSettings{KubernetesAgentd: DefaultAgentd},
		turnSettings: turnSettings{IncludeDirty: true, Timeout: defaultTimeout, MaxRounds: DefaultMaxRounds,
			MaxOutput: "4g"},
		modelSettings: modelSettings{RetryFor: 30 * time.Minute, ListPrices: true},
		diskSettings:  diskSettings{RunDisk: "10g", MinFree: "256m"},
		agentSettings: agentSettings{Agent: defaultAgent, IdlePause: time.Minute, IdleStop: 15 * time.Minute,
			MaxContainers: 16, EventsDays: 30, MaxEvents: 200_000, MessagesDays: 180,
			Reminder: reminderSettings{Rounds: 10, Pause: 10, Tokens: 512}, ConversationBudget: 80_000},
		sessionSettings: sessionSettings{MaxSessions: 100, SessionPause: time.Minute, SessionStop: 15 * time.Minute,
			SessionTTL: 24 * time.Hour, ClientCallTimeout: 10 * time.Minute},
		controlSettings: controlSettings{AuthMode: "auto"},
		Catalog:         make(map[string]*facts), Providers: make(map[string]*Provider),
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
			Images: p.Dialect.Images || p.Contract != providers.ChatCompletions, Stream: true, Builtin: true,
		}
	}
	return Provider{Name: name, Contract: providers.ChatCompletions, Stream: true}
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
func (s *Settings) facts(ref string) *facts {
	if s.Catalog[ref] == nil {
		s.Catalog[ref] = new(facts)
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
		from = windowSet
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
	windowSet     WindowFrom = "set"
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
