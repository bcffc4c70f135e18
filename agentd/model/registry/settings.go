package registry

import (
	"context"
	"iter"
	"strconv"
	"strings"
	"time"

	"holon/agentd/model"
	"holon/internal/duration"
	"holon/internal/providers"
	"holon/responses"
)

// settings are a provider as it is configured.
type settings struct {
	providers.Provider
	key    string
	socket string
	whole  bool
	idle   time.Duration
	total  time.Duration
	own    bool // a key or an endpoint is set

	freeform bool
	strict   bool // offer tools in their strict form
}

func readSettings(p providers.Provider, opts Options) (*settings, error) {
	c := &settings{Provider: p, socket: opts.Socket, idle: opts.IdleTimeout, freeform: opts.Freeform}
	setting := func(what string) string { return strings.TrimSpace(opts.Setting(providers.Setting(p.Name, what))) }
	if opts.Socket == "" {
		c.key = setting("API_KEY")
		if base := setting("BASE_URL"); base != "" {
			// A custom server may need no key.
			c.BaseURL, c.KeyOptional, c.own = base, c.KeyOptional || p.BaseURL == "", true
		}
		c.own = c.own || c.key != ""
	} else {
		c.BaseURL = "" // the gateway's
	}
	var bad error
	refuse := func(what, remedy string) {
		e := responses.Invalid(providers.Setting(p.Name, what), responses.CodeInvalidValue, "cannot be read")
		e.Hint = remedy
		bad = e
	}
	flag := func(what string, v *bool) {
		if text := setting(what); text != "" {
			var err error
			if *v, err = strconv.ParseBool(text); err != nil {
				refuse(what, "write true or false")
			}
		}
	}
	duration := func(what string, v *time.Duration) {
		if text := setting(what); text != "" {
			var err error
			if *v, err = duration.Parse(text); err != nil || *v <= 0 {
				refuse(what, "write a duration such as 90s")
			}
		}
	}
	streams := true
	flag("STREAM", &streams)
	c.whole = !streams
	flag("IMAGES", &c.Dialect.Images)
	flag("STRICT_TOOLS", &c.strict)
	duration("IDLE_TIMEOUT", &c.idle)
	duration("TIMEOUT", &c.total)
	for key := range strings.SplitSeq(setting("OMIT"), ",") {
		if key = strings.TrimSpace(key); key != "" {
			c.Dialect.Omit = append(c.Dialect.Omit[:len(c.Dialect.Omit):len(c.Dialect.Omit)], key)
		}
	}
	return c, bad
}

// refusing is the transport of a provider that cannot be called.
type refusing struct{ why *responses.Error }

// Check implements model.Checker.
func (r refusing) Check(string) error { return r.why }

// Stream implements model.Transport.
func (r refusing) Stream(context.Context, model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		yield(model.Event{}, &model.Error{
			Kind: model.KindUnsupported, Code: r.why.Code, Message: r.why.Error(),
			Diagnostics: &model.Diagnostics{Stage: model.StageSelect},
		})
	}
}
