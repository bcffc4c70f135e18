package settings

import (
	"fmt"
	"strings"

	"holon/internal/providers"
	"holon/runner/engine"
	"holon/runner/uidpool"
)

// projectRule says how the file of a project may set a key. Every key has a rule; the zero value is a mistake
// in the table.
type projectRule uint8

const (
	_          projectRule = iota
	never                  // it names what is run, read, asked, paid or reached, or is about the host
	lowerOnly              // a limit: the lesser of its value and the person's counts
	strictOnly             // only the value that confines, which is in key.strict
	ownFolder              // paths, which stay within the repository
	free                   // it neither confines nor loosens
)

// key is one setting, an entry of the table.
type key struct {
	name     string // segments joined by dots; "*" is a provider's name or a model's reference
	env      string // variable; for a provider x: what follows X_
	doc      string
	project  projectRule
	strict   string   // for strictOnly
	absent   float64  // for lowerOnly: what the zero value stands for; 0 is unlimited
	choices  []string // the only values, for strings
	positive bool     // a number that must be more than 0

	// field returns where the value is kept: a pointer to a string, bool, int,
	// int64, float64, time.Duration, []string, Money, *Money, Size or Contract.
	field func(s *Settings, name string) any
	// check returns why a value is invalid and how to write it; "" for a valid one.
	check func(s *Settings, name string) (what, remedy string)
}

// group says what a "*" stands for.
type group uint8

const (
	plain group = iota
	ofProvider
	ofModel
)

func (k *key) group() group {
	switch {
	case strings.HasPrefix(k.name, "providers.*."):
		return ofProvider
	case strings.HasPrefix(k.name, "models.catalog.*."):
		return ofModel
	}
	return plain
}

func (k *key) segments() []string { return strings.Split(k.name, ".") }

// full returns the key's name for one provider or model.
func (k *key) full(name string) string { return strings.Replace(k.name, "*", name, 1) }

// keys is the table. Its order is that in which settings are shown.
var keys = []*key{
	{name: "model.default", env: "HOLON_MODEL", project: never,
		doc: "The model, as provider/model. A scripted/FILE plays a scenario; " + DefaultModel +
			" if it has a key by default.",
		field: func(s *Settings, _ string) any {
			return &s.Model
		}, check: func(s *Settings, _ string) (string, string) { return checkRef(s.Model) }},
	{name: "model.fallbacks", env: "HOLON_MODEL_FALLBACKS", project: never,
		doc:   "Models to ask, in order, when the default one fails before it says anything.",
		field: func(s *Settings, _ string) any { return &s.Fallbacks }, check: checkFallbacks},
	{name: "model.unknown_fallback.context_window_tokens", project: never,
		doc:   "Context window that is assumed of models of which nothing is known, in tokens.",
		field: func(s *Settings, _ string) any { return &s.Unknown.ContextWindow }, positive: true},
	{name: "model.unknown_fallback.runtime_max_output_tokens", project: never,
		doc:   "Limit of an answer that is assumed of such models, in tokens.",
		field: func(s *Settings, _ string) any { return &s.Unknown.MaxOutputTokens }, positive: true},
	{name: "models.catalog.*.context_window", project: never, doc: "Context window of the model, in tokens.",
		field: func(s *Settings, m string) any { return &s.facts(m).ContextWindow }, positive: true},
	{name: "models.catalog.*.max_output_tokens", project: never, doc: "Longest answer of the model, in tokens.",
		field: func(s *Settings, m string) any { return &s.facts(m).MaxOutputTokens }, positive: true},
	{name: "models.catalog.*.price.input", project: never, doc: "Price of a million tokens that the model is sent.",
		field: func(s *Settings, m string) any { return &s.facts(m).Input }},
	{name: "models.catalog.*.price.cached_input", project: never,
		doc:   "Price of a million of them that the provider had cached; that of input by default.",
		field: func(s *Settings, m string) any { return &s.facts(m).CachedInput }},
	{name: "models.catalog.*.price.cache_write", project: never,
		doc:   "Price of a million tokens that the provider is to cache; that of input by default.",
		field: func(s *Settings, m string) any { return &s.facts(m).CacheWrite }},
	{name: "models.catalog.*.price.output", project: never,
		doc:   "Price of a million tokens that the model answers with, thoughts included.",
		field: func(s *Settings, m string) any { return &s.facts(m).Output }},

	{name: "image", env: "HOLON_IMAGE", project: free, doc: "Image of the container. It is never pulled.",
		field: func(s *Settings, _ string) any { return &s.Image }},
	{name: "engine", env: "HOLON_ENGINE", project: strictOnly, strict: EngineDocker,
		choices: []string{EngineAuto, EngineDocker, EngineLocal},
		doc:     "auto and docker are Docker; local runs agentd as a child process and confines nothing.",
		field:   func(s *Settings, _ string) any { return &s.Engine }},
	{name: "include_dirty", env: "HOLON_INCLUDE_DIRTY", project: strictOnly, strict: "false",
		doc:   "Start from the files as they are, uncommitted changes included.",
		field: func(s *Settings, _ string) any { return &s.IncludeDirty }},
	{name: "timeout", env: "HOLON_TIMEOUT", project: lowerOnly, doc: "Wall time of a turn.",
		field: func(s *Settings, _ string) any { return &s.Timeout }, check: checkTimeout},
	{name: "max_rounds", env: "HOLON_MAX_ROUNDS", project: lowerOnly, doc: "How often the model is asked at most.",
		field: func(s *Settings, _ string) any {
			return &s.MaxRounds
		}, check: func(s *Settings, _ string) (string, string) {
			if s.MaxRounds < 1 {
				return fmt.Sprintf("%d is less than 1", s.MaxRounds), "leave it out for the default"
			}
			return "", ""
		}},
	{name: "max_tool_calls", env: "HOLON_MAX_TOOL_CALLS", project: lowerOnly,
		doc: "How often tools are called at most; no bound by default.",
		field: func(s *Settings, _ string) any {
			return &s.MaxToolCalls
		}, check: func(s *Settings, _ string) (string, string) {
			if s.MaxToolCalls < 0 {
				return fmt.Sprintf("%d is negative", s.MaxToolCalls), "leave it out for no bound"
			}
			return "", ""
		}},
	{name: "max_output_bytes", env: "HOLON_MAX_OUTPUT_BYTES", project: lowerOnly,
		doc:   "How much a turn may leave in its output directory, its streams included; 4g by default.",
		field: func(s *Settings, _ string) any { return &s.MaxOutput }},
	{name: "memory", env: "HOLON_MEMORY", project: lowerOnly, absent: engine.DefaultMemory,
		doc:   "Memory of the container, such as 4g; 2g by default.",
		field: func(s *Settings, _ string) any { return &s.Memory }, check: func(s *Settings, _ string) (string, string) {
			if n, err := s.Memory.Bytes(); err == nil && n > 0 && n < engine.MinMemory {
				return fmt.Sprintf("%s is less than a container needs", s.Memory), "use 64m or more"
			}
			return "", ""
		}},
	{name: "cpus", env: "HOLON_CPUS", project: lowerOnly, absent: engine.DefaultNanoCPUs / 1e9,
		doc:   "CPUs of the container, such as 1.5; 4 or all of a smaller machine by default.",
		field: func(s *Settings, _ string) any { return &s.CPUs }, check: func(s *Settings, _ string) (string, string) {
			if !(s.CPUs >= 0 && s.CPUs <= 4096) {
				return fmt.Sprintf("%g is out of range", s.CPUs), "leave it out for the default"
			}
			if s.CPUs < engine.MinNanoCPUs/1e9 {
				return fmt.Sprintf(
					"%g is less than a container needs",
					s.CPUs,
				), "use 0.01 or more, or leave it out for the default"
			}
			return "", ""
		}},
	{name: "network", env: "HOLON_NETWORK", project: strictOnly, strict: engine.NetworkNone,
		doc:   "Network of the container; anything but none confines less.",
		field: func(s *Settings, _ string) any { return &s.Network }},
	{name: "user", env: "HOLON_USER", project: never, doc: "UID:GID of the container; yours by default.",
		field: func(s *Settings, _ string) any { return &s.User }},
	{name: "container_uids", env: "HOLON_CONTAINER_UIDS", project: never,
		doc: "FIRST-LAST, the user ids of root's containers, each of which gets its own; " +
			"1879048192-1879113727 by default.",
		field: func(s *Settings, _ string) any {
			return &s.ContainerUIDs
		}, check: func(s *Settings, _ string) (string, string) {
			if _, _, err := uidpool.Parse(s.ContainerUIDs); s.ContainerUIDs != "" && err != nil {
				return err.Error(), "leave it out for the default"
			}
			return "", ""
		}},
	{name: "container_runtime", env: "HOLON_RUNTIME", project: never,
		doc:   "What runs containers in the engine, such as runsc; the engine's own by default.",
		field: func(s *Settings, _ string) any { return &s.ContainerRuntime }},
	{name: "accept_weaker", env: "HOLON_ACCEPT_WEAKER", project: never,
		doc:   "Axes of the isolation that the engine may enforce less strictly than asked for.",
		field: func(s *Settings, _ string) any { return &s.AcceptWeaker }},
	{name: "allow_hosts", env: "HOLON_ALLOW_HOSTS", project: never,
		doc:   "Hosts that the agent may reach over HTTP and HTTPS, or *.DOMAIN for those below one.",
		field: func(s *Settings, _ string) any { return &s.AllowHosts }},
	{name: "allow_alternates", env: "HOLON_ALLOW_ALTERNATES", project: never,
		doc: "Directories outside of a repository that it may borrow objects from (objects/info/alternates), and " +
			"those below them.",
		field: func(s *Settings, _ string) any { return &s.AllowAlternates }, check: checkAlternates},
	{name: "skills", env: "HOLON_SKILLS", project: ownFolder,
		doc:   "Folders with a SKILL.md, or names of installed skills.",
		field: func(s *Settings, _ string) any { return &s.Skills }},

	{name: "disk", env: "HOLON_RUN_DISK", project: lowerOnly,
		doc:   "How much one run may write, its session and what it adds to its working tree; 10g by default.",
		field: func(s *Settings, _ string) any { return &s.RunDisk }},
	{name: "max_disk", env: "HOLON_MAX_DISK", project: never,
		doc:   "How much HOLON_HOME may have for a run to be started; no bound by default.",
		field: func(s *Settings, _ string) any { return &s.MaxDisk }},
	{name: "min_free", env: "HOLON_MIN_FREE", project: never,
		doc:   "How much must be free on the disk of HOLON_HOME for a run to be started; 256m by default.",
		field: func(s *Settings, _ string) any { return &s.MinFree }},

	{name: "runtime.max_output_tokens", env: "HOLON_MAX_OUTPUT_TOKENS", project: never,
		doc:   "Longest answer that a model is asked for, in tokens; what the model allows by default.",
		field: func(s *Settings, _ string) any { return &s.MaxOutputTokens }, positive: true},
	{name: "runtime.default_tool_output_tokens", env: "HOLON_DEFAULT_TOOL_OUTPUT_TOKENS", project: never,
		doc:   "How much of a tool's output a model is shown when it does not say, in tokens; 8000 by default.",
		field: func(s *Settings, _ string) any { return &s.DefaultToolOutputTokens }, positive: true},
	{name: "runtime.max_tool_output_tokens", env: "HOLON_MAX_TOOL_OUTPUT_TOKENS", project: never,
		doc:   "How much of it at most; 64000 by default.",
		field: func(s *Settings, _ string) any { return &s.MaxToolOutputTokens }, positive: true},
	{name: "runtime.retry_for", env: "HOLON_RETRY_FOR", project: never,
		doc: "How long a turn waits for models that are out of order or limit the rate, beyond two quick retries; 30m by " +
			"default, and at most 2m in a run that a person watches.",
		field: func(s *Settings, _ string) any { return &s.RetryFor }, check: checkRetryFor},
	{name: "runtime.disable_provider_fallback", env: "HOLON_DISABLE_PROVIDER_FALLBACK", project: never,
		doc:   "Ask the default model only.",
		field: func(s *Settings, _ string) any { return &s.DisableFallback }},

	{name: "agent.default", env: "HOLON_AGENT_ID", project: never,
		doc:   "The agent that is meant when none is named; main by default.",
		field: func(s *Settings, _ string) any { return &s.Agent }, check: checkAgent},
	{name: "runtime.idle_pause", env: "HOLON_IDLE_PAUSE", project: never,
		doc:   "How long an agent's container runs without work before it is held still.",
		field: func(s *Settings, _ string) any { return &s.IdlePause }, positive: true},
	{name: "runtime.idle_stop", env: "HOLON_IDLE_STOP", project: never,
		doc:   "How long it is kept without work before it is removed. The agent's files and history stay.",
		field: func(s *Settings, _ string) any { return &s.IdleStop }, positive: true},
	{name: "runtime.max_containers", env: "HOLON_MAX_CONTAINERS", project: never,
		doc:   "Containers of agents at a time. Beyond it the longest idle one goes, or a turn waits.",
		field: func(s *Settings, _ string) any { return &s.MaxContainers }, positive: true},
	{name: "runtime.retention.events_days", project: never, doc: "How long events of agents are kept.",
		field: func(s *Settings, _ string) any { return &s.EventsDays }, positive: true},
	{name: "runtime.retention.max_events", project: never, doc: "How many events of one agent are kept, the newest.",
		field: func(s *Settings, _ string) any { return &s.MaxEvents }, positive: true},
	{name: "runtime.retention.messages_days", project: never,
		doc:   "How long messages are kept whose turns have ended, with the turns, the transcript and the briefs.",
		field: func(s *Settings, _ string) any { return &s.MessagesDays }, positive: true},
	{name: "runtime.retention.max_turn_files", env: "HOLON_MAX_TURN_FILES", project: never,
		doc: "What the directories of an agent's turns may have in all, even those that its record refers to; no bound " +
			"by default.",
		field: func(s *Settings, _ string) any { return &s.MaxTurnFiles }},
	{name: "runtime.work_item_stale_reminder.rounds", env: "HOLON_WORK_ITEM_STALE_REMINDER_ROUNDS", project: never,
		doc: "After how many rounds of a turn without a change of a work item a model is reminded of the current one; " +
			"10 by default.",
		field: func(s *Settings, _ string) any { return &s.Reminder.Rounds }, positive: true},
	{name: "runtime.work_item_stale_reminder.cooldown_rounds", env: "HOLON_WORK_ITEM_STALE_REMINDER_COOLDOWN_ROUNDS",
		project: never, doc: "After how many more rounds it is reminded again; 10 by default.",
		field: func(s *Settings, _ string) any { return &s.Reminder.CooldownRounds }, positive: true},
	{name: "runtime.work_item_stale_reminder.max_tokens", env: "HOLON_WORK_ITEM_STALE_REMINDER_MAX_TOKENS",
		project: never, doc: "How long a reminder may be, in tokens; 512 by default.",
		field: func(s *Settings, _ string) any { return &s.Reminder.MaxTokens }, positive: true},
	{name: "control.http_addr", env: "HOLON_HTTP_ADDR", project: never,
		doc: "Address, as HOST:PORT, on which the control plane is reached over TCP as well as on its Unix " +
			"socket; none by default.",
		field: func(s *Settings, _ string) any { return &s.HTTPAddr }},
	{name: "control.callback_base_url", env: "HOLON_CALLBACK_BASE_URL", project: never,
		doc:   "URL under which others reach that port; URLs of triggers begin with it.",
		field: func(s *Settings, _ string) any { return &s.CallbackBaseURL }},
	{name: "control.auth_mode", env: "HOLON_CONTROL_AUTH_MODE", project: never,
		choices: []string{authAuto, authRequired, authDisabled},
		doc: "Whether TCP needs a token: auto makes one when none is given, required wants one to be given, " +
			"disabled is for loopback only.", field: func(s *Settings, _ string) any { return &s.AuthMode }},

	{name: "budget.max_tokens", env: "HOLON_MAX_TOKENS", project: lowerOnly,
		doc:   "Tokens that a run may use of its models, sent and answered; no bound by default.",
		field: func(s *Settings, _ string) any { return &s.Budget.MaxTokens }, positive: true},
	{name: "budget.max_requests", env: "HOLON_MAX_REQUESTS", project: lowerOnly,
		doc:   "Requests that a run may make; no bound by default.",
		field: func(s *Settings, _ string) any { return &s.Budget.MaxRequests }, positive: true},
	{name: "budget.max_cost", env: "HOLON_MAX_COST", project: lowerOnly,
		doc:   "What a run may cost by the prices of models.catalog; no bound by default.",
		field: func(s *Settings, _ string) any { return &s.Budget.MaxCost }},

	{name: "providers.*.contract", project: never, doc: "Which API it speaks.", choices: contracts(),
		field: func(s *Settings, p string) any { return &s.provider(p).Contract }},
	{name: "providers.*.base_url", env: "BASE_URL", project: never,
		doc:   "Its endpoint: http, https, or unix:///SOCKET:/PREFIX.",
		field: func(s *Settings, p string) any { return &s.provider(p).BaseURL }, check: checkBaseURL},
	{name: "providers.*.credential.source", project: never,
		choices: []string{SourceEnv, SourceFile, SourceCommand, SourceNone},
		doc:     "Where its key comes from; by default the environment where it is there, else the credentials file.",
		field:   func(s *Settings, p string) any { return &s.provider(p).Credential.Source }},
	{name: "providers.*.credential.env", project: never,
		doc:   "Variable with the key; X_API_KEY of provider x by default.",
		field: func(s *Settings, p string) any { return &s.provider(p).Credential.Env }, check: checkVariable},
	{name: "providers.*.credential.profile", project: never,
		doc:   "Profile of the credentials file; the provider's name by default.",
		field: func(s *Settings, p string) any { return &s.provider(p).Credential.Profile }, check: checkProfile},
	{name: "providers.*.credential.command", project: never,
		doc:   "Program, and its arguments, that prints the key. No shell is involved.",
		field: func(s *Settings, p string) any { return &s.provider(p).Credential.Command }, check: checkCommand},
	{name: "providers.*.credential.kind", project: never, choices: []string{KindAPIKey, KindBearer},
		doc:   "How the key is sent: as the contract has it, or as a bearer token.",
		field: func(s *Settings, p string) any { return &s.provider(p).Credential.Kind }},
	{name: "providers.*.stream", env: "STREAM", project: never,
		doc:   "Ask for answers as a stream; false: as one JSON object.",
		field: func(s *Settings, p string) any { return (*not)(&s.provider(p).Whole) }},
	{name: "providers.*.images", env: "IMAGES", project: never,
		doc:   "Whether its models take pictures (Chat Completions).",
		field: func(s *Settings, p string) any { return &s.provider(p).Images }},
	{name: "providers.*.omit", env: "OMIT", project: never,
		doc:   "Keys of a request that it refuses (Chat Completions).",
		field: func(s *Settings, p string) any { return &s.provider(p).Omit }, check: checkOmit},
	{name: "providers.*.allow_hosted", project: never,
		doc: "What it may do itself for a turn: types of its own tools (web_search), further keys of a request, " +
			"and fetch_urls.",
		field: func(s *Settings, p string) any { return &s.provider(p).AllowHosted }, check: checkAllowHosted},
	{name: "providers.*.idle_timeout", env: "IDLE_TIMEOUT", project: never,
		doc:   "How long it may be silent; 5m by default.",
		field: func(s *Settings, p string) any { return &s.provider(p).IdleTimeout }, positive: true},
	{name: "providers.*.timeout", env: "TIMEOUT", project: never, doc: "How long one attempt may take; 1h by default.",
		field: func(s *Settings, p string) any { return &s.provider(p).Timeout }, positive: true},
}

// not is a bool that is set by its negation.
type not bool

func contracts() (names []string) {
	for _, c := range providers.Contracts() {
		names = append(names, string(c))
	}
	return names
}
