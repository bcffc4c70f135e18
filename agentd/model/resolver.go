package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holon/responses"
)

// Checker is implemented by transports that can tell, without a call, that a
// model cannot be called: a key or the scenario is missing. The error is a
// *responses.Error about the field model.
type Checker interface{ Check(name string) error }

// lister is implemented by transports whose models are known beforehand. A
// transport without it takes any name.
type lister interface{ Models() []string }

// Options configure a Resolver.
type Options struct {
	Transports map[string]Transport // by provider, the part of a reference before the first slash
	Default    string               // reference for ""; may be ""
	Fallbacks  []string             // references to try after Default
	Retry      Policy
	Totals     map[string]time.Duration // by provider: Retry.Total where it is another

	// Unlisted are providers that can be named but are not offered: a name without a
	// provider never refers to them.
	Unlisted map[string]Transport
}

// Choice is what a reference to a model resolves to.
type Choice struct {
	Transport Transport
	Name      string   // as the transport knows the model
	Ref       string   // provider/model
	Fallbacks []string // references that the transport asks after it, in order
}

// Resolver maps model references, "provider/model", to transports with retries
// and, for the default model, fallbacks around them. It is immutable.
type Resolver struct{ opts Options }

// NewResolver checks that the default model and the fallbacks name configured
// providers. Other requirements of a model (a key, a file) are only checked when
// it is called, so that a server starts without them. Errors are *responses.Error
// values.
func NewResolver(opts Options) (*Resolver, error) {
	r := &Resolver{opts: opts}
	r.opts.Transports, r.opts.Unlisted = maps.Clone(opts.Transports), maps.Clone(opts.Unlisted)
	if opts.Default == "" {
		if len(opts.Fallbacks) > 0 {
			return nil, responses.Invalid("model", responses.CodeMissingParameter,
				"there are fallback models but there is no model; set --model")
		}
		return r, nil
	}
	_, err := r.chain(opts.Default, opts.Fallbacks)
	return r, err
}

// chain is the transport of a model with fallbacks. All are full references.
func (r *Resolver) chain(first string, fallbacks []string) (Transport, error) {
	var list []Candidate
	for _, ref := range append([]string{first}, fallbacks...) {
		provider, name, ok := strings.Cut(ref, "/")
		if !ok || name == "" || r.transport(provider) == nil {
			return nil, r.notFound(ref)
		}
		c := Candidate{Ref: ref, Name: name, Transport: r.transport(provider), Policy: r.opts.Retry}
		if total, ok := r.opts.Totals[provider]; ok {
			c.Policy.Total = total
		}
		list = append(list, c)
	}
	return Chain(list...), nil
}

// Resolve returns what a reference means; "" is the default model. A name without
// a provider is completed when only the default model's provider can be meant.
// Without fallbacks the default model has those of the server. Errors are
// *responses.Error values about the field model.
func (r *Resolver) Resolve(ref string, fallbacks ...string) (Choice, error) {
	full, err := r.complete(ref)
	if err != nil {
		return Choice{}, err
	}
	if len(fallbacks) == 0 && full == r.opts.Default {
		fallbacks = r.opts.Fallbacks
	}
	provider, name, _ := strings.Cut(full, "/")
	// A fallback may have what the first model lacks.
	if c, ok := r.transport(provider).(Checker); ok && len(fallbacks) == 0 {
		if err := c.Check(name); err != nil {
			return Choice{}, err
		}
	}
	t, err := r.chain(full, fallbacks)
	return Choice{t, name, full, fallbacks}, err
}

// transport returns the transport of a provider, nil when there is none.
func (r *Resolver) transport(provider string) Transport {
	if t := r.opts.Transports[provider]; t != nil {
		return t
	}
	return r.opts.Unlisted[provider]
}

// complete returns the full form of a reference whose provider is configured.
func (r *Resolver) complete(ref string) (string, error) {
	if ref == "" {
		if r.opts.Default == "" {
			return "", responses.Invalid("model", responses.CodeMissingParameter,
				"no model was named and the server has no default; name one as provider/model, or start the server "+
					"with --model")
		}
		return r.opts.Default, nil
	}
	provider, name, ok := strings.Cut(ref, "/")
	if ok && name != "" && r.transport(provider) != nil {
		return ref, nil
	}
	home, defaultName, _ := strings.Cut(r.opts.Default, "/")
	if home == "" {
		return "", r.notFound(ref)
	}
	if ref == defaultName {
		return r.opts.Default, nil
	}
	if ok {
		return "", r.notFound(ref) // it names a provider, which is not configured
	}
	takers := r.takers(home, ref)
	switch {
	case !slices.Contains(takers, home):
		return "", r.notFound(ref)
	case len(takers) > 1:
		return "", responses.Invalid("model", responses.CodeModelNotFound,
			fmt.Sprintf("the model name %q fits several providers; write it as %s", clip(ref),
				strings.Join(spell(takers, clip(ref)), " or ")))
	}
	return home + "/" + ref, nil
}

// takers returns the providers that may have a model of that name. A provider
// without its key is left out, unless it is the default's.
func (r *Resolver) takers(home, name string) (list []string) {
	for _, provider := range r.providers() {
		l, closed := r.opts.Transports[provider].(lister)
		if c, ok := r.opts.Transports[provider].(Checker); ok && !closed && provider != home && c.Check(name) != nil {
			continue
		}
		if !closed || slices.Contains(l.Models(), name) {
			list = append(list, provider)
		}
	}
	return list
}

func spell(providers []string, name string) []string {
	refs := make([]string, len(providers))
	for i, p := range providers {
		refs[i] = p + "/" + name
	}
	return refs
}

// Models lists the references that are known beforehand: the default first,
// then the fallbacks, then what the providers list.
func (r *Resolver) Models() []string {
	var list []string
	add := func(ref string) {
		if !slices.Contains(list, ref) {
			list = append(list, ref)
		}
	}
	if r.opts.Default != "" {
		add(r.opts.Default)
	}
	for _, ref := range r.opts.Fallbacks {
		add(ref)
	}
	for _, provider := range r.providers() {
		if l, ok := r.opts.Transports[provider].(lister); ok {
			for _, name := range l.Models() {
				add(provider + "/" + name)
			}
		}
	}
	return list
}

func (r *Resolver) providers() []string {
	return slices.Sorted(maps.Keys(r.opts.Transports))
}

func (r *Resolver) notFound(ref string) *responses.Error {
	e := responses.Invalid("model", responses.CodeModelNotFound,
		fmt.Sprintf("the model %q belongs to no configured provider", clip(ref)))
	e.Hint = "write provider/model with one of the providers " + strings.Join(r.providers(), ", ")
	return e
}

// clip bounds what an error repeats of a request.
func clip(ref string) string {
	if len(ref) > 100 {
		return strings.ToValidUTF8(ref[:100], "") + "…"
	}
	return ref
}
