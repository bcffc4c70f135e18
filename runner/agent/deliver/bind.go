package deliver

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"strings"

	"holon/internal/visible"
	"holon/runner/agent/scheduler"
	"holon/runner/agent/signature"
	"holon/runner/gateway"
	"holon/state"
	"holon/state/ledger"
)

// profile is the name under which a secret of a binding is kept. Ids have no dots.
func profile(bindingID, what string) string { return "notify." + bindingID + "." + what }

// Bind makes or replaces a binding of a webhook: an URL, a kind of authentication and a secret that are left out stay
// as they were. Its secrets are stored first: a binding in the ledger can be used. A secret that was made for it, and
// the token of an ingress that it did not have, are in the answer and nowhere else. Errors: those of scheduler.Bind and
// of the store of secrets.
func (d *Deliverer) Bind(ctx context.Context, n scheduler.NewBinding) (bound scheduler.Bound, err error) {
	d.binding.Lock() // between a secret and its binding
	defer d.binding.Unlock()
	b := n.OperatorBinding
	if b.Transport != ledger.TransportWebhook {
		return bound, refuse("transport", fmt.Sprintf("%.40q is not to be bound this way", b.Transport),
			"use webhook; a command and the desktop are settings of the daemon: holon config set notify.desktop true")
	}
	if b.ID == ledger.TransportCommand || b.ID == ledger.TransportDesktop {
		return bound, refuse("binding_id", b.ID+" is the name of a binding that the settings make", "choose another name")
	}
	if err := scheduler.CheckBinding(b); err != nil {
		return bound, err
	}
	old, known, err := d.find(ctx, b)
	if err != nil {
		return bound, err
	}
	if n.Auth.Kind == "" && known {
		n.Auth.Kind = old.Auth.Kind
	}
	n.Auth.Kind = cmp.Or(n.Auth.Kind, ledger.AuthHMAC)
	b.Auth = n.Auth
	if n.URL == "" && known {
		if n.URL, err = d.urlOf(old); err != nil {
			return bound, err
		}
	}
	if b.CallbackURL, err = d.keepURL(n); err != nil {
		return bound, err
	}
	if bound.SigningSecret, err = d.keepSecret(n, old, known); err != nil {
		return bound, err
	}
	if b.Ingress && !(known && old.Ingress) {
		bound.IngressToken = rand.Text() + rand.Text()
		b.TokenHash = scheduler.TokenHash(bound.IngressToken)
		d.Known.Add("the token of the binding "+b.ID, bound.IngressToken)
	}
	bound.OperatorBinding, err = d.Steps.Bind(ctx, b)
	return bound, err
}

// find returns the active binding that another one takes the place of. One that was revoked has no secrets.
func (d *Deliverer) find(ctx context.Context, b ledger.OperatorBinding) (old ledger.OperatorBinding, ok bool,
	err error) {
	err = d.Store.View(ctx, func(v ledger.View) (err error) {
		old, ok, err = v.OperatorBinding(b.ID)
		return err
	})
	if ok && old.AgentID != b.AgentID {
		return old, ok, &state.Error{Code: ledger.CodeExists, Param: "binding_id", Hint: "choose another name",
			Message: fmt.Sprintf("binding %s is one of agent %s", b.ID, old.AgentID)}
	}
	return old, ok && old.Status == ledger.BindingActive, err
}

// keepURL stores the URL of a binding, and returns what of it is shown: the rest may be a secret.
func (d *Deliverer) keepURL(n scheduler.NewBinding) (shown string, err error) {
	u, err := url.Parse(n.URL)
	switch {
	case err != nil || u.Host == "" || u.Fragment != "" || u.Scheme != "http" && u.Scheme != "https":
		return "", refuse("delivery_callback_url", "it is not a URL that can be posted to",
			"give one like https://ntfy.example.org/topic")
	case u.User != nil:
		return "", refuse("delivery_callback_url", "it has a user or a password", "use a bearer token instead")
	case u.Scheme == "http" && !n.AllowPrivate:
		return "", refuse("delivery_callback_url", "http shows everyone on the way what is sent",
			"use https; in a private network, add --allow-private-addresses (allow_private_addresses)")
	}
	if shown = u.Scheme + "://" + u.Host; len(u.Path) <= 1 && u.RawQuery == "" {
		return shown, nil
	}
	return shown + more, d.keep("delivery_auth", profile(n.ID, "url"), n.URL)
}

// more ends what is shown of a URL that has more.
const more = "/…"

// urlOf is the whole URL of a binding.
func (d *Deliverer) urlOf(b ledger.OperatorBinding) (string, error) {
	if !strings.HasSuffix(b.CallbackURL, more) {
		return b.CallbackURL, nil
	}
	u, err := d.Secrets.Get(profile(b.ID, "url"))
	return u.Reveal(), err
}

// keepSecret stores what authenticates deliveries, and returns it if it was made here.
func (d *Deliverer) keepSecret(n scheduler.NewBinding, old ledger.OperatorBinding, known bool) (made string,
	err error) {
	secret := n.Secret
	switch n.Auth.Kind {
	case ledger.AuthHMAC:
		if secret == "" && !(known && old.Auth.Kind == ledger.AuthHMAC) {
			key := make([]byte, 32)
			_, _ = rand.Read(key) // never fails
			made = signature.SecretPrefix + base64.StdEncoding.EncodeToString(key)
			secret = made
		}
		if _, bad := signature.Key(secret); secret != "" && bad != nil {
			return "", refuse("delivery_auth.signing_secret", bad.Error(), "leave it out: one is made")
		}
	case ledger.AuthBearer:
		if secret == "" && !(known && old.Auth.Kind == ledger.AuthBearer) {
			return "", refuse("delivery_auth.bearer_token", "it is missing", "give the token that the receiver expects")
		}
	default:
		return "", refuse("delivery_auth.kind", fmt.Sprintf("%.40q is not a kind", n.Auth.Kind), "use hmac or bearer")
	}
	if secret == "" {
		return "", nil
	}
	return made, d.keep("delivery_auth", profile(n.ID, "secret"), secret)
}

// keep stores a secret under a name. An error of the store is about the field param.
func (d *Deliverer) keep(param, name, secret string) error {
	err := d.Secrets.Set(name, gateway.NewSecret(secret), d.Now())
	if e, ok := errors.AsType[*state.Error](err); ok { // of the store, or of the secret itself
		why := strings.TrimSpace(visible.OneLine(state.Named(e.Param, e.Error()), 400))
		return refuse(param, "its secret cannot be kept: "+why, e.Hint)
	}
	if err != nil {
		return fmt.Errorf("store %s: %w", name, err)
	}
	d.Known.Add(name, secret)
	return nil
}

// Revoke ends a binding, and removes its secrets.
func (d *Deliverer) Revoke(ctx context.Context, agentID, id string) (ledger.OperatorBinding, error) {
	d.binding.Lock()
	defer d.binding.Unlock()
	b, err := d.Steps.RevokeBinding(ctx, agentID, id)
	if err == nil {
		err = d.forget(id)
	}
	return b, err
}

// Forget removes the secrets of the bindings and triggers that were revoked otherwise: with their agents.
func (d *Deliverer) Forget(ctx context.Context) error {
	d.binding.Lock()
	defer d.binding.Unlock()
	kept, err := d.Secrets.Names()
	if err != nil {
		return err
	}
	return d.Store.View(ctx, func(v ledger.View) (err error) {
		for _, name := range kept {
			if id, of := strings.CutPrefix(name, triggerPrefix); of {
				err = errors.Join(err, d.forgetTrigger(v, id))
				continue
			}
			id, of := strings.CutPrefix(name, "notify.")
			if id, _, _ = strings.Cut(id, "."); !of {
				continue
			}
			b, _, found := v.OperatorBinding(id)
			if found == nil && b.Status != ledger.BindingActive {
				found = d.forget(id)
			}
			err = errors.Join(err, found)
		}
		return err
	})
}

// forget removes the secrets of a binding.
func (d *Deliverer) forget(id string) error {
	return errors.Join(d.remove(profile(id, "url")), d.remove(profile(id, "secret")))
}

// remove removes a secret, if there is one of that name.
func (d *Deliverer) remove(name string) error {
	found, err := d.Secrets.Has(name)
	if err == nil && found {
		err = d.Secrets.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func refuse(param, message, hint string) error {
	return &state.Error{Code: scheduler.CodeInvalidBinding, Param: param, Message: message, Hint: hint}
}

// BindHost makes the bindings of what is on this host as the settings have it: a command, and the desktop. They are of
// the default agent, the first one if it was another before.
func (d *Deliverer) BindHost(ctx context.Context, agentID string) error {
	for transport, set := range map[string]bool{ledger.TransportCommand: len(d.Command) > 0,
		ledger.TransportDesktop: d.Bus != ""} {
		b, err := ledger.Read(ctx, d.Store, func(v ledger.View) (b ledger.OperatorBinding, err error) {
			b, _, err = v.OperatorBinding(transport)
			return b, err
		})
		active := b.Status == ledger.BindingActive
		b.ID, b.Transport, b.AgentID = transport, transport, cmp.Or(b.AgentID, agentID)
		b.Capabilities = ledger.Capabilities{Text: true}
		switch {
		case err == nil && set && !active:
			_, err = d.Steps.Bind(ctx, b)
		case err == nil && !set && active:
			_, err = d.Steps.RevokeBinding(ctx, b.AgentID, transport)
		}
		if err != nil {
			return fmt.Errorf("bind the transport %s: %w", transport, err)
		}
	}
	return nil
}
