package tui

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"

	"holon/internal/visible"
	"holon/runner/control/wire"
)

// branch are the turns of the conversation as it stands, in order.
func (s *session) branch(ctx context.Context) ([]wire.SessionTurn, error) {
	_, branch, err := s.turns(ctx)
	return branch, err
}

// turns are all turns in order, and those of the branch: a session that went back has others too.
func (s *session) turns(ctx context.Context) (all, branch []wire.SessionTurn, err error) {
	if s.name() == "" {
		return nil, nil, nil // it has not begun
	}
	at, err := s.client.Session(ctx, s.name())
	if err != nil {
		return nil, nil, err
	}
	list, err := s.client.SessionTurns(ctx, s.name())
	s.mu.Lock()
	mine := s.mine
	s.mu.Unlock()
	for i, t := range list.Data { // the record has it once the turn has ended
		if mine != nil && mine.PreviousResponseID != nil && t.ResponseID == mine.ID {
			list.Data[i].PreviousResponseID = *mine.PreviousResponseID
		}
	}
	return list.Data, line(list.Data, at.Rewound), err
}

// line are the turns that lead to the newest one, or to the one that the session went back to since. The newest one is
// not the current one where it failed or was interrupted.
func line(all []wire.SessionTurn, rewound bool) (turns []wire.SessionTurn) {
	next, open := "", false
	for i, t := range slices.Backward(all) {
		if open && t.ResponseID == next || !open && (t.Current || !rewound && i == len(all)-1) {
			turns, open, next = append(turns, t), true, t.PreviousResponseID
		}
	}
	slices.Reverse(turns)
	return turns
}

// rewindPage lists the turns to go back to.
func (s *session) rewindPage(ctx context.Context) (page, error) {
	all, branch, err := s.turns(ctx)
	return page{Title: "turns", Heads: []string{"TURN", "TIME", "ASKED", "ANSWER"}, Items: rewindItems(all, branch)}, err
}

// rewindItems numbers the turns of the branch, and marks the ones that the session went back from.
func rewindItems(all, branch []wire.SessionTurn) []item {
	items := []item{{Cells: []string{"0", "", "(the beginning)", ""}}}
	number := 0
	for _, t := range all {
		at := "left"
		if number < len(branch) && t.ResponseID == branch[number].ResponseID {
			number++
			at = strconv.Itoa(number)
		}
		answer := t.TextPreview
		if !t.TreeKept {
			answer = "(files are not kept) " + answer
		}
		items = append(items, item{ID: t.ResponseID, Mark: t.Current, Cells: []string{at, when(t.CreatedAt),
			cmp.Or(t.InputPreview, "(not recorded)"), answer}})
	}
	return items
}

// rewind goes back to a response, "" for the beginning, or by a number of turns.
func (s *session) rewind(ctx context.Context, verb, id string) (string, error) {
	if s.name() == "" {
		return "", errors.New("the session has no turn yet")
	}
	if verb == "back" {
		turns, err := s.branch(ctx)
		if err != nil {
			return "", err
		}
		n, err := strconv.Atoi(id)
		if err != nil || n < 1 || n > len(turns) {
			return "", fmt.Errorf("the session can go back %d turns, not %.20s", len(turns), id)
		}
		if id = ""; n < len(turns) {
			id = turns[len(turns)-1-n].ResponseID
		}
	}
	done, err := s.client.RewindSession(ctx, s.name(), wire.RewindSession{ResponseID: id})
	if err != nil {
		return "", err
	}
	text := "the conversation and the files are what they were after " + cmp.Or(done.ResponseID, "nothing")
	if !done.TreeRestored {
		text = "the conversation is what it was after " + cmp.Or(done.ResponseID, "nothing") + "; the files stay as they are"
	}
	for _, w := range done.Warnings {
		text += "\n" + visible.Name(w.Path) + ": " + w.Message
	}
	return text, nil
}
