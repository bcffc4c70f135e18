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

// branch are the turns that the next one continues, in order: a session that went back has others too.
func (s *session) branch(ctx context.Context) (turns []wire.SessionTurn, err error) {
	if s.name() == "" {
		return nil, nil // it has not begun
	}
	list, err := s.client.SessionTurns(ctx, s.name())
	if err != nil {
		return nil, err
	}
	next, open := "", false
	for i, t := range slices.Backward(list.Data) {
		if !open && !t.Current || open && t.ResponseID != next {
			continue
		}
		turns, open = append(turns, t), true
		if next = t.PreviousResponseID; next == "" && i > 0 && t.Status == "in_progress" {
			next = list.Data[i-1].ResponseID // what it continues is written when it ends
		}
		if next == "" {
			break
		}
	}
	slices.Reverse(turns)
	return turns, nil
}

// rewindPage lists the turns to go back to.
func (s *session) rewindPage(ctx context.Context) (page, error) {
	p := page{Title: "turns", Heads: []string{"TURN", "TIME", "ASKED", "ANSWER"},
		Items: []item{{Cells: []string{"0", "", "(the beginning)", ""}}}}
	turns, err := s.branch(ctx)
	for i, t := range turns {
		answer := t.TextPreview
		if !t.TreeKept {
			answer = "(files are not kept) " + answer
		}
		p.Items = append(p.Items, item{ID: t.ResponseID, Mark: t.Current, Cells: []string{strconv.Itoa(i + 1),
			when(t.CreatedAt), t.InputPreview, answer}})
	}
	return p, err
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
