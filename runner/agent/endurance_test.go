package agent_test

import (
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/memorysearch"
	"holon/runner/agent/view"
	"holon/state/ledger"
	"holon/test/expect"
)

// One agent with many turns over many restarts: what a turn costs stops growing with the first renewal, nothing that
// the memory shows breaks the cached prefix of a conversation, the episodes have each turn once, and what was said
// early is found.
func TestALongLife(t *testing.T) {
	t.Parallel()
	turnsTaken, restarts := 3000, 20
	if testing.Short() {
		turnsTaken, restarts = 30, 1
	}
	l := newLab(t, `rounds: [{text: "noted {{last_user:fact [0-9]+}}, and that is all there is to say of it"}]`)
	l.budget = 20_000
	for n := range turnsTaken {
		if n%(turnsTaken/(restarts+1)) == 0 {
			if n > 0 {
				l.end()
			}
			l.start()
		}
		text := fmt.Sprintf("fact %d: %s", n+1, strings.Repeat("some words of an operator ", 240))
		l.untilStatus(l.prompt(text, "", ""), ledger.Processed)
	}
	defer l.end()
	l.checkEpisodes(int64(turnsTaken))
	l.checkRequests(turnsTaken)
	l.checkSearch()
}

// checkSearch: a fact of an early turn is found after all the others.
func (l *lab) checkSearch() {
	l.t.Helper()
	s := memorysearch.New(memorysearch.Options{Ledger: l.store, Files: noFiles{}, Dir: l.home.AgentPrivateDir,
		Key: []byte("key"), Log: l.log})
	found, err := s.Search(l.t.Context(), "main", view.MemoryQuery{Text: "fact 17", Limit: 5})
	expect.NoError(l.t, err)
	if !slices.ContainsFunc(found.Results, func(m view.MemoryResult) bool {
		return strings.Contains(m.Snippet, "noted fact 17,")
	}) {
		l.t.Errorf("the search finds %+v", found.Results)
	}
}

// noFiles are homes without files.
type noFiles struct{}

func (noFiles) Text(string, string) (string, time.Time, error) {
	return "", time.Time{}, fs.ErrNotExist
}

// checkEpisodes: the episodes of main and the one that goes on have all its turns once.
func (l *lab) checkEpisodes(turnsTaken int64) {
	l.t.Helper()
	next, number := int64(1), int64(1)
	err := l.store.View(l.t.Context(), func(v ledger.View) error {
		m, _, err := v.Memory("main")
		if err != nil {
			return err
		}
		for {
			list, err := v.EpisodesAfter("main", number-1, 0)
			if err != nil || len(list) == 0 {
				expect.Equal(l.t, "episodes", number-1, m.Archived)
				if m.Builder != nil {
					expect.Equal(l.t, "the turn with which the last one begins", m.Builder.StartTurn, next)
					next = m.Builder.EndTurn + 1
				}
				return err
			}
			for _, e := range list {
				if e.Number != number || e.StartTurn != next {
					return fmt.Errorf("episode %d begins with turn %d, want episode %d with turn %d", e.Number, e.StartTurn, number,
						next)
				}
				number, next = number+1, e.EndTurn+1
			}
		}
	})
	expect.NoError(l.t, err)
	expect.Equal(l.t, "turns in episodes", next-1, turnsTaken)
}

// checkRequests looks at what the model was sent. Of each turn that goes on with a conversation, all that was sent
// before is the beginning; and no turn is larger than the largest before the first renewal by more than a prompt that begins a
// conversation.
func (l *lab) checkRequests(turnsTaken int) {
	l.t.Helper()
	anew := map[string]bool{}
	renewals, largest, first := 0, int64(0), int64(0)
	expected, all := int64(0), int64(0) // tokens of requests that go on: those that were sent before, and all
	err := l.store.View(l.t.Context(), func(v ledger.View) error {
		list, err := v.Turns("main", turnsTaken)
		for _, t := range list {
			anew[t.ID] = t.Previous == ""
		}
		for after, more := int64(0), true; more && err == nil; {
			var page ledger.EventPage
			page, err = v.Events("main", ledger.EventQuery{After: after})
			for _, e := range page.Events {
				after = e.Seq
				if e.Class == turns.ContextCompacted {
					if renewals++; renewals == 1 {
						first = largest
					}
				}
				if e.Class != turns.ModelCompleted {
					continue
				}
				var p turns.Sampled
				if err := json.Unmarshal(e.Data, &p); err != nil {
					return err
				}
				largest = max(largest, p.Usage.InputTokens)
				sent := p.ProviderAttempt.Prompt
				if lost := sent.ExpectedTokens == 0; lost && !anew[e.TurnID] && sent.Broken != "first_request" { // of a container
					l.t.Errorf("turn %s sends %d tokens of a conversation anew: %s", e.TurnID, sent.EstimatedTokens, sent.Broken)
				} else if !lost {
					expected, all = expected+sent.ExpectedTokens, all+int64(sent.EstimatedTokens)
				}
			}
			more = page.HasNewer
		}
		return err
	})
	expect.NoError(l.t, err)
	if renewals == 0 || largest > first+6_000 {
		l.t.Errorf("after %d renewals a turn had %d tokens, want at most 6,000 more than the %d before the first", renewals,
			largest, first)
	}
	l.t.Logf("%d renewals; tokens of the largest turn: %d before the first, %d in all; %d%% of a request were sent before",
		renewals, first, largest, 100*expected/max(all, 1))
}
