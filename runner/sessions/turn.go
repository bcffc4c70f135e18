package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"holon/runner"
	"holon/runner/gateway"
)

// tokenName is what a person knows the secret of a turn by.
const tokenName = "the turn's token"

// ErrNotAsked is the reason for a turn that was not asked for, because it could not be recorded.
var ErrNotAsked = errors.New("record which turn is asked for")

// Turn makes a turn, which is recorded before it is asked for. See runner.Session.Turn.
func (s *Session) Turn(ctx context.Context, t runner.Turn, watch runner.Observer) runner.End {
	s.await(ctx)
	if err := s.ask(&t); err != nil {
		end := runner.End{TurnID: t.ID(), Err: fmt.Errorf("%w: %w", ErrNotAsked, err)}
		end.Settle(nil, s.manager.Secrets)
		return end
	}
	end := s.Session.Turn(ctx, t, watch)
	s.ended(&end)
	return end
}

// ask records a turn that is about to be asked for, unless Start did.
func (s *Session) ask(t *runner.Turn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.record.TurnID == t.ID() && s.next != (gateway.Secret{}) {
		t.Token, t.Grant = s.next, s.record.Grant
		s.next = gateway.Secret{}
		s.keepToken(t)
		return nil
	}
	t.Token, t.Grant = gateway.NewToken()
	s.record.earlier = slices.DeleteFunc(s.record.underWay(), func(a Asked) bool {
		return !s.manager.AtOnce || s.over[a.TurnID] || a.TurnID == t.ID()
	})
	s.record.Asked = Asked{t.ID(), t.Grant}
	save := s.save
	if s.manager.AtOnce {
		save = s.saveTurn
	}
	if err := save(); err != nil {
		return err
	}
	s.keepToken(t)
	return nil
}

// maxTurnLines is after how many lines the file of turns is made anew. To replace it for each turn takes longer than
// all else that the door does before agentd is asked.
const maxTurnLines = 32

// saveTurn records the newest turn of a session that makes several at a time.
func (s *Session) saveTurn() (err error) {
	dir := s.manager.Dir(s.key)
	if s.lines == 0 || s.lines >= maxTurnLines {
		err, s.lines = s.record.writeTurns(dir), len(s.record.underWay())
	} else {
		err, s.lines = s.record.appendTurn(dir), s.lines+1
	}
	if err != nil {
		s.lines = 0
	}
	return err
}

// keepToken makes the token of a turn a secret, in place of those of turns that are over.
func (s *Session) keepToken(t *runner.Turn) {
	s.forget(func(turnID string) bool { return s.over[turnID] })
	clear(s.over)
	s.tokens[t.ID()] = t.Token.Reveal()
	s.manager.Secrets.AddFresh(tokenName, t.Token.Reveal())
}

// Rejoin watches a turn that another process asked for. It can ask no more models if it is not on record.
func (s *Session) Rejoin(ctx context.Context, t runner.Turn, watch runner.Observer) runner.End {
	s.await(ctx)
	s.mu.Lock()
	t.Grant = s.record.grant(t.ID())
	s.mu.Unlock()
	end := s.Session.Rejoin(ctx, t, watch)
	s.ended(&end)
	return end
}

// await finds out, once, which of the turns that are on record go on.
func (s *Session) await(ctx context.Context) {
	if !s.manager.AtOnce || s.Gone() != nil {
		return
	}
	s.awaits.Do(func() {
		var going []string
		for _, a := range s.record.underWay() {
			rec, err := s.Client().Turn(ctx, a.TurnID)
			switch {
			case err != nil:
			case rec.Status.Terminal():
				s.note(a.TurnID)
			default:
				going = append(going, a.TurnID)
			}
		}
		s.Await(going)
	})
}

// note notes that a turn is over.
func (s *Session) note(turnID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.over[turnID] = true
}

// ended notes that a turn is over, of which another process may watch more if it was left.
func (s *Session) ended(e *runner.End) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !errors.Is(e.Err, runner.ErrLeft) {
		s.over[e.TurnID] = true
	}
	if e.Err == nil {
		s.seen(e)
	}
}

// forgetTokens forgets the tokens of all turns.
func (s *Session) forgetTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.forget(func(string) bool { return true })
}

func (s *Session) forget(over func(turnID string) bool) {
	for id, token := range s.tokens {
		if over(id) {
			s.manager.Secrets.Forget(token)
			delete(s.tokens, id)
		}
	}
}
