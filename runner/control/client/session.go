package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
)

// SessionsHere is Sessions for what shows other things, too: none where this runtime does not have them now.
func (c *Client) SessionsHere(ctx context.Context) (wire.SessionList, error) {
	list, err := c.Sessions(ctx)
	for _, code := range []state.Code{wire.CodeUnsupported, wire.CodeNotReady, ledger.CodeElsewhere} {
		if state.IsCode(err, code) {
			return list, nil
		}
	}
	return list, err
}

// Sessions returns the sessions of all clients, the newest first.
func (c *Client) Sessions(ctx context.Context) (out wire.SessionList, err error) {
	return out, c.call(ctx, http.MethodGet, "/sessions", nil, "", &out)
}

// StartSession opens a session of the operator.
func (c *Client) StartSession(ctx context.Context, s wire.StartSession) (out wire.Session, err error) {
	return out, c.call(ctx, http.MethodPost, "/control/sessions", s, "", &out)
}

// Session returns the session with an id or a name.
func (c *Client) Session(ctx context.Context, name string) (out wire.Session, err error) {
	return out, c.call(ctx, http.MethodGet, "/sessions/"+url.PathEscape(name), nil, "", &out)
}

// DiffSession returns what was changed in a session, with at most patchBytes of the patch.
func (c *Client) DiffSession(ctx context.Context, name string, patchBytes int64) (out wire.SessionDiff, err error) {
	path := fmt.Sprintf("/sessions/%s/diff?patch_bytes=%d", url.PathEscape(name), patchBytes)
	return out, c.call(ctx, http.MethodGet, path, nil, "", &out)
}

// ApplySession brings what was changed in a session into the operator's files.
func (c *Client) ApplySession(ctx context.Context, name string, a wire.ApplySession) (out wire.SessionApplied,
	err error) {
	return out, c.changeSession(ctx, name, "apply", a, &out)
}

// CheckoutSession makes a branch of what was changed in a session.
func (c *Client) CheckoutSession(ctx context.Context, name string, o wire.CheckoutSession) (out wire.SessionCheckout,
	err error) {
	return out, c.changeSession(ctx, name, "checkout", o, &out)
}

// SessionTurns returns the turns of a session, in the order in which they began.
func (c *Client) SessionTurns(ctx context.Context, name string) (out wire.SessionTurnList, err error) {
	return out, c.call(ctx, http.MethodGet, "/sessions/"+url.PathEscape(name)+"/turns", nil, "", &out)
}

// RewindSession goes back to what a session was right after a response.
func (c *Client) RewindSession(ctx context.Context, name string, w wire.RewindSession) (out wire.SessionRewound,
	err error) {
	return out, c.changeSession(ctx, name, "rewind", w, &out)
}

// CloseSession ends a session.
func (c *Client) CloseSession(ctx context.Context, name string) (out wire.Session, err error) {
	return out, c.changeSession(ctx, name, "close", nil, &out)
}

func (c *Client) changeSession(ctx context.Context, name, what string, body, out any) error {
	return c.call(ctx, http.MethodPost, "/control/sessions/"+url.PathEscape(name)+"/"+what, body, "", out)
}
