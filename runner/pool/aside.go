package pool

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"holon/internal/visible"
	"holon/responses"
	"holon/responses/turns"
	"holon/runner"
	"holon/state"
	"holon/state/files"
)

// asideDir keeps the session of an agent that could not be used, next to the session that replaced it.
const asideDir = "set-aside"

// spoiled reports whether a turn was not begun because agentd cannot work with what
// it keeps, as far as it is visible from outside.
func spoiled(err error) bool {
	return state.IsCode(err, runner.CodeAgentdRefused) || state.IsCode(err, responses.CodeServerError)
}

// maxUnrecorded is how many turns in a row agentd may fail to record before what it
// keeps is set aside.
const maxUnrecorded = 2

// noteUnrecorded gives the agent another container after a turn that agentd could not
// record.
func (k *Pool) noteUnrecorded(ctx context.Context, u *use, r runner.End) {
	a, failed := u.agent, r.Failure != nil && strings.HasPrefix(r.Failure.Message, turns.Unrecorded)
	switch {
	case u.session != nil && failed:
		if u.own() {
			a.stale = turns.Unrecorded
		}
	case u.session != nil: // others may use it
	case failed:
		a.unrecorded++
		k.closeLogged(ctx, a)
	default:
		a.unrecorded = 0
	}
}

// setAside asks for a turn without what agentd kept of the agent, after a new
// container could not make it for cause: a command can write there, and must not be
// able to end the agent that way. If the turn is begun then, the old session stays aside and
// the conversation begins anew. Otherwise the session was not at fault and comes back. An older
// session that was set aside is deleted.
func (k *Pool) setAside(ctx context.Context, a *agent, cause error, ask func() (runner.End, error)) (runner.End,
	error) {
	kept, aside := k.private(a, sessionDir), k.private(a, asideDir)
	k.closeLogged(ctx, a)
	if err := k.putAside(a); err != nil {
		return runner.End{}, k.typed(ctx, errors.Join(cause, err))
	}
	a.unrecorded = 0
	result, err := ask()
	if err == nil || state.IsCode(err, responses.CodePreviousNotFound) {
		k.announceSetAside(a.id, cause)
		return result, err
	}
	k.closeLogged(ctx, a)
	if back := errors.Join(files.RemoveAll(kept), os.Rename(aside, kept)); back != nil {
		k.opts.Log.Error("what was set aside of an agent cannot be put back", "agent", a.id, "err", back)
	}
	return runner.End{}, cause
}

// putAside moves the agent's session to where none is looked for.
func (k *Pool) putAside(a *agent) error {
	aside := k.private(a, asideDir)
	if err := errors.Join(files.RemoveAll(aside), os.Rename(k.private(a, sessionDir), aside)); err != nil {
		return fmt.Errorf("set the agent's session aside: %w", err)
	}
	return nil
}

func (k *Pool) announceSetAside(agentID string, cause error) {
	aside := filepath.Join(k.opts.Home.AgentPrivateDir(agentID), asideDir)
	k.opts.Log.Warn("what agentd kept of an agent cannot be used and is set aside", "agent", agentID, "dir", aside,
		"err", cause)
	if k.opts.SetAside != nil {
		k.opts.SetAside(agentID, fmt.Sprintf("What agent %s kept of its conversation could not be used and was set "+
			"aside in %s; it begins anew. Its home and its memory are as they were. The cause: %s",
			agentID, aside, runner.Describe(cause).Message))
	}
}

// checkSeal sets the session of an agent aside, and refuses that of another owner, if a stored response in it is not
// the one that was seen.
func (k *Pool) checkSeal(a *agent) error {
	changed, err := k.sessions.Changed(a.key)
	if err != nil || changed == "" {
		return err
	}
	unseen := &Error{Code: responses.CodeServerError, Message: "the stored response " +
		visible.OneLine(changed, 100) + " is not as holon saw it; commands of the agent could write it"}
	if !k.ofAgents() {
		return unseen
	}
	if err := k.putAside(a); err != nil {
		return err
	}
	k.announceSetAside(a.id, unseen)
	return nil
}
