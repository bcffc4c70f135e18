package conversation

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"holon/internal/folder"
	"holon/internal/visible"
	"holon/responses"
	"holon/responses/client"
	"holon/responses/turns"
	"holon/runner"
	"holon/runner/workspace"
	"holon/state"
)

// Codes of errors of Rewind, in addition to those of package workspace.
const (
	CodeBusy    state.Code = "session_busy"  // 409: a turn runs
	CodeNotKept state.Code = "tree_not_kept" // 409: of the files after that response
)

// markStart is the mark of the tree as it began; no turn has that id.
const markStart = "the.start"

// settleTime bounds how long the end of a turn waits for the mark of its tree.
const settleTime = time.Minute

// Turn is one of the turns of a session that agentd has accepted.
type Turn struct {
	TurnID             string
	ResponseID         string
	PreviousResponseID string // "": it began a conversation; until it has ended, what was current when it was accepted
	CreatedAt          turns.Time
	Status             responses.Status // in_progress until it has ended
	Input, Text        string           // the beginnings of what was asked and answered, in one line
	Kept               bool             // the tree can become what it was then
	Current            bool             // the next turn continues it

	mark     string // of its tree: its own id, or that of the turn before it which left the same files
	unstored bool   // no turn can continue it
	before   string // the current response when it was accepted
}

// discontinued reports whether a request that names the session alone does not continue the turn.
func (t *Turn) discontinued() bool {
	return t.unstored || t.Status == responses.StatusFailed || t.Status == responses.StatusCancelled
}

// maxTurns bounds Turns.
const maxTurns = 1000

// Turns are the newest turns of the session, in the order in which they began.
func (x *Session) Turns() ([]Turn, error) {
	var marks map[string]bool
	if held := x.snapshot().Tree; held != nil {
		var err error
		if marks, err = workspace.Marks(*held); err != nil {
			return nil, typed(err)
		}
	}
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	list := make([]Turn, 0, len(x.log.responses))
	for _, id := range x.log.responses[max(0, len(x.log.responses)-maxTurns):] {
		t := *x.log.made[id]
		t.Kept, t.Current = marks[t.mark], id == x.log.current
		list = append(list, t)
	}
	return list, nil
}

// Current is the response that a request continues which names the session and no response: that of the newest turn, or
// the one that the session went back to since; where that is failed, cancelled or not stored, the one that was current
// before. "" begins a conversation.
func (x *Session) Current() (responseID string) {
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	return x.log.current
}

// Line is the responses of the session in the order in which they were asked for, up to Current.
func (x *Session) Line() []string {
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	return slices.Clone(x.log.responses[:slices.Index(x.log.responses, x.log.current)+1])
}

// hold takes the session for what no turn may begin or end in. It comes before all other locks.
func (x *Session) hold(ctx context.Context) (release func(), err error) {
	select {
	case x.steady <- struct{}{}:
		return func() { <-x.steady }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// holdSettled is hold once the end of each turn that agentd has ended is in the log: a client may have seen that end
// before the watcher of the turn has, and what it asks for next changes the tree.
func (x *Session) holdSettled(ctx context.Context) (release func(), err error) {
	patience, cancel := context.WithTimeout(ctx, x.sessions.decided)
	defer cancel()
	for {
		if release, err = x.hold(ctx); err != nil {
			return nil, err
		}
		over := x.unsettled(patience)
		if over == "" || patience.Err() != nil {
			return release, nil
		}
		release()
		x.awaitEnd(patience, over)
	}
}

// unsettled is a turn that has ended for agentd and goes on in the log, "" for none. agentd is asked about those whose
// end this process has not seen.
func (x *Session) unsettled(ctx context.Context) (turnID string) {
	x.sessions.mu.Lock()
	going := slices.Clone(x.log.going)
	seen := slices.IndexFunc(going, func(id string) bool { return x.calls[id] != nil && x.calls[id].over })
	x.sessions.mu.Unlock()
	switch {
	case len(going) == 0 || ctx.Err() != nil:
		return ""
	case seen >= 0:
		return going[seen]
	}
	err := x.Do(ctx, func(ctx context.Context, agent *client.Client) error {
		for _, id := range going {
			if rec, err := agent.Turn(ctx, id); err == nil && rec.Status.Terminal() {
				turnID = id
			}
		}
		return nil
	})
	if err != nil {
		return "" // its watcher finds out
	}
	return turnID
}

// awaitEnd waits until the log has the end of a turn.
func (x *Session) awaitEnd(ctx context.Context, turnID string) {
	s := x.sessions
	defer context.AfterFunc(ctx, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.grown.Broadcast()
	})()
	s.mu.Lock()
	defer s.mu.Unlock()
	for ctx.Err() == nil && slices.Contains(x.log.going, turnID) {
		s.grown.Wait()
	}
}

// leftAlone reports whether a turn that ended left the tree as the one before it did: it ran alone, and called no tool.
func (x *Session) leftAlone(turnID string, end runner.End) bool {
	if end.Err != nil || end.Record == nil || end.Record.ToolCalls.Total > 0 {
		return false
	}
	x.sessions.mu.Lock()
	defer x.sessions.mu.Unlock()
	tree := x.record.Tree
	return tree != nil && x.alone(turnID) && workspace.Marked(*tree, x.log.mark())
}

// alone reports whether no other turn goes on. The caller holds mu.
func (x *Session) alone(turnID string) bool { return len(x.log.going) == 1 && x.log.going[0] == turnID }

// settle keeps the tree as a turn left it, before another one begins, which may once release is called. The turn has
// ended: its caller may be gone.
func (x *Session) settle(turnID string) (release func()) {
	ctx, cancel := context.WithTimeout(context.Background(), settleTime)
	defer cancel()
	release, err := x.hold(ctx)
	if err != nil {
		release = func() {}
	} else {
		err = x.markTurn(ctx, turnID)
	}
	if err != nil {
		x.sessions.opts.Log.Warn("the files after a turn are not kept", "session", x.id, "turn", turnID, "err", err)
	}
	return release
}

// markTurn keeps the tree as a turn left it, unless another one changes it.
func (x *Session) markTurn(ctx context.Context, turnID string) error {
	x.sessions.mu.Lock()
	keeps := x.record.Tree != nil && x.record.open() && x.alone(turnID)
	x.sessions.mu.Unlock()
	if !keeps {
		return nil
	}
	return x.withTree(ctx, func(ctx context.Context, tree *workspace.Tree) error { return tree.Mark(ctx, turnID) })
}

// withTree calls fn with the tree of a session that is open, while nothing in its container runs.
func (x *Session) withTree(ctx context.Context, fn func(ctx context.Context, tree *workspace.Tree) error) error {
	return typed(x.sessions.opts.Pool.Still(ctx, x.id, func(ctx context.Context, _ *folder.Owner) (err error) {
		unlock, err := x.lock(ctx)
		if err != nil {
			return err
		}
		defer unlock()
		r := x.snapshot()
		if !r.open() || r.Tree == nil {
			return errClosed(x.id)
		}
		tree, err := x.resume(ctx, *r.Tree)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, tree.Leave()) }()
		return fn(ctx, tree)
	}))
}

// preview is the beginning of a text, in one line.
func preview(text string) string { return visible.OneLine(strings.TrimSpace(text), 200) }

// Rewound is what going back did.
type Rewound struct {
	ResponseID   string // Session.Current
	TreeRestored bool
	Warnings     []state.Warning // of what in the tree stayed as it is
}

// Rewind makes a response the current one, "" for the beginning, and the tree what it was right after it. What came
// later stays and can be gone back to. Of a turn that failed or was cancelled the tree comes back, and the current
// response is the one before; see Current. conversationOnly leaves the tree as it is.
func (x *Session) Rewind(ctx context.Context, responseID string, conversationOnly bool, by string) (Rewound, error) {
	release, err := x.holdSettled(ctx)
	if err != nil {
		return Rewound{}, err
	}
	defer release()
	l, restore, err := x.rewinding(responseID, conversationOnly)
	if err != nil {
		return Rewound{}, err
	}
	ctx = context.WithoutCancel(ctx) // what is begun is finished, also for a caller that is gone
	var done Rewound
	if l.Rewound.Tree {
		err := x.withTree(ctx, func(ctx context.Context, tree *workspace.Tree) error {
			restored, err := tree.Restore(ctx, restore)
			done.TreeRestored, done.Warnings = err == nil, restored.Warnings
			return err
		})
		if state.IsCode(err, workspace.CodeNotMarked) {
			return Rewound{}, notKept(responseID)
		}
		if err != nil {
			return Rewound{}, err
		}
	}
	x.writing.Lock()
	err = cmp.Or(x.append(l), x.sync())
	x.writing.Unlock()
	if err != nil {
		return Rewound{}, err
	}
	x.save()
	x.note(event{What: "rewound", By: by, Response: responseID})
	done.ResponseID = x.Current()
	return done, nil
}

func notKept(responseID string) error {
	return &state.Error{Code: CodeNotKept, Param: "response_id",
		Message: fmt.Sprintf("the files as they were after %.128q were not kept", responseID),
		Hint:    "go back with the conversation alone, or to another response"}
}

// rewinding is the line of going back to a response, and what becomes of the tree, whose note says what the log lacks
// after a kill.
func (x *Session) rewinding(responseID string, alone bool) (l line, restore workspace.Restore, err error) {
	s := x.sessions
	s.mu.Lock()
	defer s.mu.Unlock()
	to := x.log.made[responseID]
	switch {
	case !x.record.open():
		return l, restore, errClosed(x.id)
	case len(x.log.going) > 0:
		return l, restore, &state.Error{Code: CodeBusy, Param: "session", Message: "a turn of the session " + x.id + " runs",
			Hint: "wait for its end, or cancel it"}
	case responseID == "":
		to = &Turn{TurnID: markStart, mark: markStart}
	case to == nil || to.Status == responses.StatusInProgress || to.unstored || !s.opts.Pool.Stored(x.id, responseID):
		return l, restore, &state.Error{Code: responses.CodeNotFound, Param: "response_id",
			Message: fmt.Sprintf("the session has no response %.128q that a turn can continue", responseID),
			Hint:    "holon session turns " + x.id + " shows those that it has"}
	}
	l.Rewound = &rewound{Response: responseID, Tree: x.record.Tree != nil && !alone}
	restore = workspace.Restore{Mark: to.mark, Leave: x.log.tree, Note: x.log.note(to.TurnID)}
	if restore.Leave == markStart || restore.Leave == to.TurnID { // which stays as it was
		restore.Leave = ""
	}
	return l, restore, nil
}

// note identifies going back to a turn: the newest turn before that, and how often the session went back since.
func (f *folded) note(turnID string) string {
	return fmt.Sprint(f.newest, " ", f.rewinds+1, " ", turnID)
}

// completeRewind adds to the log that the tree went back, where a kill came between the two.
func (x *Session) completeRewind() {
	if x.record.Tree == nil {
		return
	}
	note, err := workspace.Note(*x.record.Tree)
	turnID := note[strings.LastIndexByte(note, ' ')+1:]
	if err == nil && note != "" && note == x.log.note(turnID) {
		l := line{Rewound: &rewound{Tree: true}}
		if to := x.log.turn(turnID); to != nil {
			l.Rewound.Response = to.ResponseID
		}
		x.writing.Lock()
		defer x.writing.Unlock()
		err = x.append(l)
	}
	if err != nil {
		x.sessions.opts.Log.Warn("whether a session went back is not known", "session", x.id, "err", err)
	}
}

// resume opens a tree that is held. Whoever has its top, as its last container had, gets what is written there: a
// container is given a tree as a whole or not at all.
func (x *Session) resume(ctx context.Context, held workspace.Held) (*workspace.Tree, error) {
	held.Borrowing = x.sessions.opts.Borrowing()
	if info, err := os.Lstat(held.TreeDir); err == nil && os.Geteuid() == 0 {
		if st, ok := info.Sys().(*syscall.Stat_t); ok {
			held.Owner = &folder.Owner{UID: int(st.Uid), GID: int(st.Gid)}
		}
	}
	return workspace.Resume(ctx, workspace.Options{CacheDir: x.sessions.opts.Home.CacheDir()}, held)
}
