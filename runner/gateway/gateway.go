// Package gateway lets a container without network and without keys call its
// model provider, and nothing else.
//
// The host serves a Unix socket in the container's directory. A request for
// http://model/<provider>/<path> is sent to the provider's endpoint with the
// key added here. The invariant: a request reaches a provider only if its
// method and its target, byte for byte, are on the provider's list; its body has
// one reading, in which the provider is asked for text and for nothing that it
// would search, fetch or run; it carries only headers named in this package and the
// key; and no answer, error or log line shows a key, in any of the encodings that
// redact.Matcher lists. Redirects are never followed, connections never upgraded.
//
// It does not judge the text of an allowed request, does not retry, and promises no
// order between requests. Answers pass as they arrive; nothing is collected first. A
// key of fewer than minStreamSecret bytes is removed from errors only: it could be a
// word of the answer.
//
// A request is read whole, and checked, before anything of it is sent: 64 MiB of pictures at most, and few such
// requests of one container at a time.
package gateway

import (
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"holon/runner/socket"
)

// Options says which providers can be reached. Nothing of it is kept in any
// place that a container sees.
type Options struct {
	// Providers by the name that begins the path: letters, digits, '_', '.', '-'.
	Providers map[string]Provider

	// Prices of models, for Budget.MaxCost and Usage.Cost.
	Prices Prices

	// Total is the account of the host from which all grants draw, too; nil for none.
	Total *Total

	// Owner is given the sockets, nil leaves them with this process's user.
	// Only root can give files away.
	Owner *socket.Owner

	// Logger receives refusals and failures; nil discards them.
	Logger *slog.Logger
}

// Gateway holds the endpoints and keys of the host. One Gateway serves any
// number of sockets; all methods are safe for concurrent use.
type Gateway struct {
	upstreams map[string]*upstream // by provider name
	routes    map[string]target    // by request target, "/openai/responses"
	prices    Prices
	total     *Total
	owner     *socket.Owner
	log       *slog.Logger

	headerTimeout time.Duration // of servers
}

// target is where one request target leads.
type target struct {
	upstream *upstream
	url      string
	grammar  *rule // of its body
}

// New checks the options and returns a gateway that has no connection yet.
// Every error is a *state.Error, without a secret, that names the setting.
func New(options Options) (*Gateway, error) {
	g := &Gateway{
		upstreams: make(map[string]*upstream, len(options.Providers)),
		routes:    make(map[string]target),
		prices:    maps.Clone(options.Prices),
		total:     options.Total,
		owner:     options.Owner,
		log:       options.Logger,

		headerTimeout: headerTimeout,
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	for _, name := range slices.Sorted(maps.Keys(options.Providers)) {
		provider, err := options.Providers[name].complete(name)
		if err != nil {
			return nil, err
		}
		up, err := newUpstream(name, provider)
		if err != nil {
			return nil, err
		}
		g.upstreams[name] = up
		path := provider.Contract.Path()
		g.routes["/"+name+path] = target{upstream: up, url: up.base + path,
			grammar: grammarOf(provider.Contract, provider.AllowHosted)}
	}
	return g, nil
}

// Providers returns the names of the configured providers, sorted.
func (g *Gateway) Providers() []string {
	return slices.Sorted(maps.Keys(g.upstreams))
}

// Close drops idle connections to providers. Servers are closed on their own,
// before.
func (g *Gateway) Close() {
	for _, up := range g.upstreams {
		up.transport.CloseIdleConnections()
	}
}

// price returns what a model costs, nil if it is not configured.
func (g *Gateway) price(ref string) *Price {
	if p, ok := g.prices[ref]; ok {
		return &p
	}
	return nil
}

// providerOf returns the provider that a request target begins with.
func (g *Gateway) providerOf(uri string) (*upstream, bool) {
	name, _, _ := strings.Cut(strings.TrimPrefix(uri, "/"), "/")
	up, ok := g.upstreams[name]
	return up, ok
}
