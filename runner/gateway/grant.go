package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"holon/responses"
	"holon/state"
)

// TokenHash is what is kept of a turn's token: its SHA-256.
type TokenHash [sha256.Size]byte

// String returns the hash in hex; it does not lead back to the token.
func (h TokenHash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText writes what String returns.
func (h TokenHash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what String wrote; an empty text is the zero hash.
func (h *TokenHash) UnmarshalText(text []byte) error {
	*h = TokenHash{}
	if n, err := hex.Decode(h[:], text[:min(len(text), 2*len(h))]); err != nil || len(text) > 0 && n != len(h) {
		return fmt.Errorf("%.80q is not the hash of a token", text)
	}
	return nil
}

// NewToken returns a random token for a turn, and what a Grant needs of it.
func NewToken() (Secret, TokenHash) {
	token := "hmt_" + rand.Text() + rand.Text()
	return NewSecret(token), sha256.Sum256([]byte(token))
}

// Grant lets a turn ask models. Without one a server passes nothing.
type Grant struct {
	TurnID string
	Token  TokenHash
	Models []string // references, provider/model; no other may be asked
	Budget Budget
	Used   Usage // by earlier turns of the agent; counts against Budget
	Pool   *Pool // whose budget it is; nil: of this grant alone

	Shared *Shared // from which the turn draws too; nil for none

	// Taken is what the turn itself took of a gateway that is gone; the account
	// goes on from it.
	Taken Account
	// Note, if not nil, gets the usage so far, soon after each request that begins or
	// ends and at most once in noteInterval, for the process that continues the turn
	// if this one is killed. One goroutine calls it, and never after Revoke returned.
	Note func(Account)
}

const noteInterval = 100 * time.Millisecond

// Lease is a Grant in force. Its methods are safe for concurrent use.
type Lease struct {
	server *Server
	grant  Grant
	ledger *ledger
	ctx    context.Context // ends with the lease
	cancel context.CancelCauseFunc

	changed chan struct{} // holds one while there is something to note
	noted   chan struct{} // closed when nothing is noted any more
}

// errRevoked cuts the requests of a turn that is over.
var errRevoked = errors.New("the turn's token was revoked")

// Grant puts g in force until it is revoked or the server closed. The error, a
// *state.Error, says which of its models this gateway can't ask, or has no price for
// although spending is limited.
func (s *Server) Grant(g Grant) (*Lease, error) {
	if err := errors.Join(s.gateway.Check(g.Models, g.Budget), s.gateway.Check(g.Models, g.Shared.Budget())); err != nil {
		return nil, err
	}
	l := &Lease{server: s, grant: g, ledger: newLedger(&g, s.gateway.total), changed: make(chan struct{}, 1),
		noted: make(chan struct{})}
	l.ctx, l.cancel = context.WithCancelCause(context.Background()) // a turn's end is said, not inherited
	if _, taken := s.leases.LoadOrStore(g.Token, l); taken {
		return nil, &state.Error{Code: CodeInvalidGrant, Param: "token",
			Message: "the token of turn " + g.TurnID + " is in force already", Hint: "make a token for each turn"}
	}
	if g.Note == nil {
		close(l.noted)
		return l, nil
	}
	go l.note()
	return l, nil
}

// note reports the usage to Grant.Note until the lease ends.
func (l *Lease) note() {
	defer close(l.noted)
	for l.ctx.Err() == nil {
		select {
		case <-l.ctx.Done():
		case <-l.changed:
			l.grant.Note(l.ledger.standing())
		}
		select {
		case <-l.ctx.Done():
		case <-time.After(noteInterval):
		}
	}
	if len(l.changed) > 0 {
		l.grant.Note(l.ledger.standing())
	}
}

// change has the account noted.
func (l *Lease) change() {
	select {
	case l.changed <- struct{}{}:
	default: // it will be
	}
}

// Check says whether models can be granted within a budget, before there is a server.
func (g *Gateway) Check(models []string, budget Budget) error {
	day, all := g.total.Budgets()
	for _, ref := range models {
		provider, name, ok := strings.Cut(ref, "/")
		if _, known := g.upstreams[provider]; !ok || name == "" || !known {
			return &state.Error{Code: CodeInvalidGrant, Param: "model",
				Message: fmt.Sprintf("the gateway has no provider for the model %.100q", ref),
				Hint:    "configured: " + strings.Join(g.Providers(), ", ")}
		}
		limit := "--max-cost"
		if budget.MaxCost == 0 {
			limit = "budgets"
		}
		if _, priced := g.prices[ref]; max(budget.MaxCost, day.MaxCost, all.MaxCost) > 0 && !priced {
			return &state.Error{Code: CodeNoPrice, Param: limit,
				Message: fmt.Sprintf("spending is limited, and no price is configured for the model %.100q", ref),
				Hint: fmt.Sprintf("set it with: holon config set models.catalog.%s.price.input AMOUNT, and "+
					".price.output; or limit tokens instead", ref)}
		}
	}
	return nil
}

// Revoke ends the lease: nothing more is passed on for its token, and what is
// being answered is cut and counted when Revoke returns. It may be called more than once.
func (l *Lease) Revoke() {
	l.server.leases.Delete(l.grant.Token)
	l.cancel(errRevoked)
	l.ledger.wait()
	<-l.noted
}

// Account returns what the turn has taken so far. It stays readable after Revoke.
func (l *Lease) Account() Account { return l.ledger.account() }

// allows reports whether the turn may ask a model of a provider.
func (l *Lease) allows(ref string) bool {
	return slices.Contains(l.grant.Models, ref)
}

// leaseOf returns the lease of a request. The hash of what came is looked up, so how long that takes tells nothing of
// a token.
func (s *Server) leaseOf(r *http.Request) (*Lease, *responses.Error) {
	values := r.Header["Authorization"]
	token, ok := "", false
	if len(values) == 1 {
		token, ok = strings.CutPrefix(values[0], "Bearer ")
	}
	if !ok || token == "" {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeTurnTokenRequired,
			Param:   "Authorization",
			Message: "models can be asked by turns only: the request has no token of one"}
	}
	l, ok := s.leases.Load(TokenHash(sha256.Sum256([]byte(token))))
	if !ok {
		return nil, &responses.Error{Type: responses.TypeInvalidRequest, Code: responses.CodeTurnTokenExpired,
			Param:   "Authorization",
			Message: "the token belongs to no turn that is running"}
	}
	return l.(*Lease), nil
}
