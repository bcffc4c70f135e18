package registry

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"holon/agentd/model"
	"holon/agentd/model/anthropic"
	"holon/agentd/model/chat"
	"holon/agentd/model/endpoint"
	"holon/agentd/model/openai"
	"holon/internal/providers"
	"holon/responses"
)

// Options list the providers in addition to the built-in ones.
type Options struct {
	// Configured lists providers as NAME or NAME=CONTRACT. One that is not
	// built in speaks Chat Completions unless it says otherwise.
	Configured []string

	// References are models that will be asked. Their providers are offered, and
	// configured by that when they are not built in.
	References []string

	// Taken are providers whose transports the caller makes.
	Taken []string

	// Setting returns the value of a variable, "" when it is not set.
	Setting func(name string) string

	// Socket is the gateway's. With it the host holds endpoints and keys, and
	// there are no providers but those that Configured and References name.
	Socket string

	IdleTimeout time.Duration // of providers that set no other
	Freeform    bool          // offer OpenAI's models tools with free input
}

// Set are the transports of the providers, by name.
type Set struct {
	Offered  map[string]model.Transport // configured, or with a key or an endpoint of their own
	Unlisted map[string]model.Transport // built in, and waiting for a key
	Totals   map[string]time.Duration   // bounds of an attempt, where one is set
	closers  []func() error
}

// Close drops idle connections.
func (s *Set) Close() error {
	var errs []error
	for _, c := range s.closers {
		errs = append(errs, c())
	}
	return errors.Join(errs...)
}

// Add adds a transport that the caller made, and that the set closes. offered says
// whether it is one of those that are offered.
func (s *Set) Add(name string, t model.Transport, offered bool) {
	if closer, ok := t.(interface{ Close() error }); ok {
		s.closers = append(s.closers, closer.Close)
	}
	if offered {
		s.Offered[name] = t
	} else {
		s.Unlisted[name] = t
	}
}

// Open makes the transports. A provider x reads
//
//	X_BASE_URL      where it is; http, https, or unix:///SOCKET:/PREFIX
//	X_API_KEY       its key
//	X_STREAM        false: ask for answers as one JSON object
//	X_IDLE_TIMEOUT  how long it may be silent
//	X_TIMEOUT       how long one attempt may take
//	X_IMAGES        whether it takes pictures (Chat Completions)
//	X_STRICT_TOOLS  whether it is offered tools in their strict form
//	X_OMIT          keys that it refuses, separated by commas (Chat Completions)
//
// Errors are *responses.Error values that name the setting.
func Open(opts Options) (*Set, error) {
	s := &Set{Offered: make(map[string]model.Transport), Unlisted: make(map[string]model.Transport),
		Totals: make(map[string]time.Duration)}
	all := &selection{list: providers.Builtin(), wanted: make(map[string]bool)}
	if err := opts.addConfigured(all); err != nil {
		return nil, err
	}
	opts.addReferenced(all)
	if opts.Socket != "" && len(all.wanted) == 0 {
		all.wanted[providers.OpenAI] = true // the default of a host that names none
	}
	for _, p := range all.list {
		if err := s.add(p, opts, all.wanted[p.Name]); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	return s, nil
}

// selection is all providers, and those among them that are wanted.
type selection struct {
	list   []providers.Provider
	wanted map[string]bool
}

// want returns the provider of that name, which is added when it is not built in.
func (s *selection) want(name string) *providers.Provider {
	s.wanted[name] = true
	i := slices.IndexFunc(s.list, func(p providers.Provider) bool { return p.Name == name })
	if i < 0 {
		i = len(s.list)
		s.list = append(s.list, providers.Provider{Name: name, Contract: providers.ChatCompletions})
	}
	return &s.list[i]
}

func (o *Options) addConfigured(s *selection) error {
	for _, entry := range o.Configured {
		name, contract, _ := strings.Cut(entry, "=")
		if !providers.ValidName(name) || slices.Contains(o.Taken, name) && contract != "" {
			e := responses.Invalid("HOLON_PROVIDERS", responses.CodeInvalidValue,
				fmt.Sprintf("%.100q cannot be a provider", entry))
			e.Hint = "write NAME or NAME=CONTRACT, with a name of lower-case letters, digits, _, - and ."
			return e
		}
		if slices.Contains(o.Taken, name) {
			continue
		}
		if p := s.want(name); contract != "" && p.Contract != providers.Contract(contract) {
			*p = providers.Provider{Name: name, Contract: providers.Contract(contract),
				KeyOptional: providers.Contract(contract) == providers.OpenResponses}
		}
	}
	return nil
}

func (o *Options) addReferenced(s *selection) {
	for _, ref := range o.References {
		name, _, ok := strings.Cut(ref, "/")
		if !ok || !providers.ValidName(name) || slices.Contains(o.Taken, name) {
			continue // the resolver says what is wrong with it
		}
		known := slices.ContainsFunc(s.list, func(p providers.Provider) bool { return p.Name == name })
		if known || o.Socket != "" || o.Setting(providers.Setting(name, "BASE_URL")) != "" {
			s.want(name)
		}
	}
}

// add makes the transport of a provider.
func (s *Set) add(p providers.Provider, opts Options, wanted bool) error {
	if opts.Socket != "" && !wanted {
		return nil
	}
	c, err := readSettings(p, opts)
	if err != nil {
		return err
	}
	t, err := c.transport()
	if err != nil {
		return err
	}
	if c.total > 0 {
		s.Totals[p.Name] = c.total
	}
	// OpenAI is always offered: users expect it to be there.
	s.Add(p.Name, t, wanted || c.own || p.Name == providers.OpenAI)
	return nil
}

// transport makes the transport for the provider's contract.
func (c *settings) transport() (model.Transport, error) {
	p := c.Provider
	if p.BaseURL == "" && c.socket == "" && p.Contract.Known() {
		e := responses.Invalid("model", responses.CodeModelNotFound,
			fmt.Sprintf("the provider %s has no endpoint", p.Name))
		e.Hint = "set " + providers.Setting(p.Name, "BASE_URL")
		return refusing{e}, nil
	}
	at := endpoint.Options{Provider: p.Name, BaseURL: p.BaseURL, APIKey: c.key, KeyOptional: p.KeyOptional,
		SocketPath: c.socket, IdleTimeout: c.idle, StrictTools: c.strict}
	switch p.Contract {
	case providers.OpenAIResponses, providers.OpenAICodexResponses, providers.OpenResponses:
		return openai.New(openai.Options{Options: at, Whole: c.whole,
			Codex:    p.Contract == providers.OpenAICodexResponses,
			Freeform: c.freeform && p.Contract == providers.OpenAIResponses})
	case providers.ChatCompletions:
		return chat.New(chat.Options{Options: at, Whole: c.whole, Dialect: p.Dialect})
	case providers.AnthropicMessages:
		return anthropic.New(at)
	}
	e := responses.Invalid("model", responses.CodeModelNotFound,
		fmt.Sprintf("the provider %s has the transport contract %.64q, which is not supported", p.Name, p.Contract))
	e.Hint = "choose one of " + providers.ContractNames()
	return refusing{e}, nil
}
