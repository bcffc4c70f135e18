package rules

import (
	"time"

	"holon/state/ledger"
)

// Bounds of what an agent does by itself, without a message of another sender.
const (
	MaxSelfQueued = 32  // messages that it made for itself and that wait
	MaxSelfTurns  = 100 // turns of its own making
	MaxIdle       = 12  // of them in a row that changed nothing
	longestPause  = 5 * time.Minute
)

// Sender returns the sender of a message that comes in with an origin. What an agent
// makes for itself is the runtime's by its authority and the agent's own in the
// queue.
func Sender(o ledger.Origin) ledger.Sender {
	switch o.Kind {
	case ledger.OriginOperator:
		return ledger.FromOperator
	case ledger.OriginTimer, ledger.OriginTask:
		return ledger.FromRuntime
	case ledger.OriginSystem:
		if o.Subsystem == ParentSubsystem {
			return ledger.FromParent
		}
		return ledger.FromSelf
	}
	return ledger.FromOutside
}

// Result is the sender of the result of a task. by is the sender of the message in whose turn the agent started it, ""
// if the operator did. The agent's own is a new fact, unless a turn of its own making started it and it has gone on
// without progress: then the result waits as what the agent makes for itself, but it is never dropped.
func Result(p ledger.Progress, by ledger.Sender) ledger.Sender {
	switch {
	case by == "":
		return ledger.FromRuntime
	case Own(by) && p.Idle > 0:
		return ledger.FromSelf
	}
	return ledger.FromTask
}

// Own reports whether what a sender sends continues what the agent does by itself.
func Own(s ledger.Sender) bool { return s == ledger.FromSelf || s == ledger.FromTask }

// Fresh is the progress of an agent that takes a message of another sender: the message
// is a new fact, and progress counts from it.
func Fresh(p ledger.Progress) ledger.Progress { return ledger.Progress{Home: p.Home} }

// Advance is the progress after a turn for a message of a sender. home is a digest of the agent's home, "" for unknown;
// worked says that the turn changed a work item. A change of the home or of a work item is a fact; text of the agent is
// not.
func Advance(p ledger.Progress, from ledger.Sender, home string, worked bool, now time.Time) ledger.Progress {
	changed := worked || p.Home != "" && home != "" && home != p.Home
	if home != "" {
		p.Home = home
	}
	if !Own(from) {
		return p
	}
	p.EndedAt = &now
	if from == ledger.FromSelf {
		p.Turns++
	}
	if p.Idle++; changed {
		p.Idle = 0
	}
	return p
}

// CodeStalled is the code of the queued result of a task that a stalled agent takes after a message of another sender.
const CodeStalled = "agent_stalled"

// Stalled reports whether an agent has gone on by itself for so long that only a
// message of another sender lets it go on.
func Stalled(p ledger.Progress) bool { return p.Turns >= MaxSelfTurns || p.Idle >= MaxIdle }

// Due is when an entry of the queue may be taken, the zero time for at once: what
// an agent made for itself waits 1 s after a turn of its own making that changed
// nothing, then 2 s, 4 s … at most five minutes.
func Due(p ledger.Progress, e ledger.Entry) time.Time {
	var at time.Time
	if e.NotBefore != nil {
		at = *e.NotBefore
	}
	if e.Sender != ledger.FromSelf || p.Idle == 0 || p.EndedAt == nil || Stalled(p) {
		return at
	}
	if pause := p.EndedAt.Add(pauseAfter(p.Idle)); pause.After(at) {
		return pause
	}
	return at
}

func pauseAfter(idle int) time.Duration {
	return min(time.Second<<min(idle-1, MaxIdle), longestPause)
}
