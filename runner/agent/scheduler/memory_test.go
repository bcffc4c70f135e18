package scheduler_test

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"holon/responses/turns"
	"holon/runner/agent/record"
	"holon/runner/agent/scheduler"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

// memory is what the runtime remembers for alpha.
func (w *world) memory() (m ledger.Memory) {
	w.t.Helper()
	w.view(func(v ledger.View) (err error) {
		m, _, err = v.Memory("alpha")
		return err
	})
	return m
}

// takes runs the turn of a prompt whose request had so many tokens. Its prompt shows the memory as it is then.
func (w *world) takes(in ledger.Message, tokens int, end scheduler.End) scheduler.Claim {
	w.t.Helper()
	w.admit(in)
	return w.nextTurn(tokens, end)
}

func (w *world) nextTurn(tokens int, end scheduler.End) scheduler.Claim {
	w.t.Helper()
	c, ok, err := w.m.Claim(w.ctx, "alpha")
	if err != nil || !ok {
		w.t.Fatalf("claim: %v, %v", ok, err)
	}
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{Prompt: []byte(`{}`), Digest: "d",
		Curated: map[string]string{"memory/self.md": "1"}}))
	data := fmt.Appendf(nil, `{"usage":{"input_tokens":%d},"provider_attempt":{"round":1}}`, tokens)
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 1, Items: 1},
		[]scheduler.Progress{{Event: ledger.Event{Class: turns.ModelCompleted, Status: "completed", ProducerSeq: 1,
			CreatedAt: w.now, Data: data}}}))
	w.settle(c.Attempt.ID, end)
	return c
}

// answers is the end of a turn that answers with a text of its own.
func answers(n int) scheduler.End {
	return scheduler.End{Turn: ledger.Turn{Kind: ledger.TurnCompleted, Last: fmt.Sprintf("answer %d", n),
		ResponseID: fmt.Sprintf("resp_%d", n)}}
}

// A change is pending until a turn that became part of the conversation has shown it.
func TestAChangeIsPendingUntilItWasShown(t *testing.T) {
	w := open(t)
	w.takes(prompt("one"), 1, answers(1))
	if m := w.memory(); m.Revision != 1 || m.Pending == nil || m.LastPrompted != 0 {
		t.Fatalf("after the first turn: %+v, want revision 1 pending", m)
	}
	w.admit(prompt("two"))
	c := w.claim() // whose prompt shows nothing of it
	w.settle(c.Attempt.ID, scheduler.End{NotBegun: true})
	for _, lost := range []scheduler.End{{Turn: ledger.Turn{Failure: &ledger.Failure{Code: "no_image"}}, NotBegun: true},
		{Lost: true}} {
		w.now = w.now.Add(time.Minute)
		c := w.nextTurn(1, lost)
		if m := w.memory(); m.LastPrompted != 0 || m.Pending == nil {
			t.Errorf("after a turn without a response for %s: %+v, want revision 1 pending", c.Message.ID, m)
		}
	}
	w.now = w.now.Add(time.Minute)
	w.nextTurn(1, answers(2))
	m := w.memory()
	if m.LastPrompted != 1 || m.Revision != 2 || m.Pending == nil || m.Pending.From != 1 || m.CuratedShown["memory/self.md"] != "1" {
		t.Errorf("after the turn that showed it: %+v, want revision 1 known and 2 pending", m)
	}
	expect.Equal(t, "its lines", fmt.Sprint(m.Pending.SummaryLines), `[recent_decisions: added "answer 2"]`)
	if b := m.Builder; b.StartMessage != 1 || b.EndMessage != 2 || b.EndTurn != 3 {
		t.Errorf("the episode goes on as %+v, want messages 1 to 2 in three turns", b)
	}
	if e := w.newest(record.MemoryUpdated); e.TurnID == "" {
		t.Errorf("the event names no turn: %+v", e)
	}
	// A process that takes a turn up does not know its prompt, which showed the change all the same.
	w.admit(prompt("three"))
	c = w.claim()
	w.must(w.m.Began(w.ctx, c.Attempt.ID, scheduler.Sent{}))
	w.settle(c.Attempt.ID, answers(3))
	if m := w.memory(); m.LastPrompted != 2 || m.Pending.From != 2 || m.CuratedShown["memory/self.md"] != "1" {
		t.Errorf("after a turn that was taken up: %+v, want revision 2 known", m)
	}
}

// A conversation that is larger than its budget begins anew after the turn in which that is seen. The client goes on
// from its last response all the same.
func TestAnOutgrownConversationBeginsAnew(t *testing.T) {
	w := open(t)
	w.set(func(o *scheduler.Options) { o.ConversationBudget = 100 })
	for n := 1; n <= 5; n++ {
		c := w.takes(prompt("x"), 200, answers(n))
		if first := c.Attempt.Chain == ""; first != (n == 1 || n == 5) {
			t.Errorf("turn %d continues %q", n, c.Attempt.Chain)
		}
	}
	l, m := w.state(), w.memory()
	expect.Equal(t, "compactions", fmt.Sprint(l.Totals.Compactions, l.Totals.CompactedMessages), "1 4")
	expect.Equal(t, "the conversation", l.Chain, "resp_5")
	expect.Equal(t, "messages in all and in the conversation", fmt.Sprint(l.Totals.Messages, m.Received), "5 1")
	expect.Equal(t, "compactions that are recorded", w.count(turns.ContextCompacted), 1)
	for n := 6; n <= 8; n++ {
		w.takes(prompt("x"), 200, answers(n))
	}
	l, m = w.state(), w.memory()
	if l.Chain != "" || l.LastResponse() != "resp_8" || m.Pending == nil || m.Pending.From != 0 || m.CuratedShown != nil {
		t.Errorf("after the second renewal: %+v, %+v; want all of the memory pending", l, m)
	}
	if _, err := w.m.Admit(w.ctx, ofClient("an older one", "resp_7")); !state.IsCode(err, scheduler.CodeNotLast) {
		t.Errorf("a client goes on from an older response: %v", err)
	}
	small := func() (list []ledger.Notification) {
		w.view(func(v ledger.View) (err error) {
			list, err = v.OpenNotifications("alpha", ledger.NoticeSmall, "alpha")
			return err
		})
		return list
	}
	if _, err := w.m.Acknowledge(w.ctx, "alpha", small()[0].ID); err != nil {
		t.Error(err)
	}
	c := w.takes(ofClient("on", "resp_8"), 200, answers(9))
	expect.Equal(t, "what the client's turn continues", c.Attempt.Chain, "")
	expect.Equal(t, "notifications of the small budget after the operator saw one", len(small()), 0)
	w.set(func(o *scheduler.Options) { o.ConversationBudget = 150 })
	w.must(w.m.Renew(w.ctx, "alpha", "operator"))
	w.takes(prompt("x"), 200, answers(10))
	expect.Equal(t, "notifications of another budget", len(small()), 1)
	w.set(func(o *scheduler.Options) { o.ConversationBudget = 200 })
	w.must(w.m.Renew(w.ctx, "alpha", "operator"))
	w.takes(prompt("x"), 200, answers(11))
	expect.Equal(t, "notifications of a budget that suffices", len(small()), 0)
}

// What is promised of a conversation keeps it: calls of the client, and a message that comes back. So does a budget that
// the prompt alone exceeds, for some turns.
func TestWhatKeepsAConversation(t *testing.T) {
	calls := func(n int) scheduler.End {
		e := answers(n)
		e.ClientCalls = []string{"call_1"}
		return e
	}
	suspended := func(n int) scheduler.End {
		e := answers(n)
		e.Lost, e.Suspended = true, true
		return e
	}
	for _, c := range []struct {
		name   string
		budget int64
		turns  int
		began  int // tokens of all turns but the last
		tokens int
		last   func(int) scheduler.End
		kept   bool
	}{
		{"nothing", 100, 6, 90, 101, answers, false},
		{"its size", 100, 6, 1, 100, answers, true},
		{"no budget", 0, 6, 1, 200, answers, true},
		{"few messages of a large beginning", 100, 3, 60, 119, answers, true},
		{"few messages that are as large as the beginning", 100, 3, 60, 120, answers, false},
		{"few messages of a beginning above the budget", 100, 3, 101, 1000, answers, true},
		{"calls of the client", 100, 6, 1, 200, calls, true},
		{"a turn that comes back", 100, 6, 1, 200, suspended, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := open(t)
			w.set(func(o *scheduler.Options) { o.ConversationBudget = c.budget })
			for n := 1; n < c.turns; n++ {
				w.takes(prompt("x"), c.began, answers(n))
			}
			w.takes(prompt("x"), c.tokens, c.last(c.turns))
			expect.Equal(t, "kept", w.state().Chain != "", c.kept)
		})
	}
}

// After agentd shortened the conversation, all of the memory is pending again.
func TestACompactedConversationIsShownAllAgain(t *testing.T) {
	w := open(t)
	w.takes(prompt("x"), 1, answers(1))
	w.takes(prompt("x"), 1, answers(2))
	w.admit(prompt("x"))
	c := w.claim()
	w.must(w.m.Progress(w.ctx, c.Attempt.ID, scheduler.Through{Facts: 2, Items: 1}, []scheduler.Progress{
		{Event: ledger.Event{Class: turns.CompactionBegun, Status: "running", ProducerSeq: 1, Data: []byte(`{"trigger":"budget"}`)}},
		{Event: ledger.Event{Class: turns.ContextCompacted, Status: "completed", ProducerSeq: 2, Data: []byte(
			`{"trigger":"budget","summarized_items":3,"preserved":{"actions":"all","incidents":"all","evidence":"all"}}`)}}}))
	w.settle(c.Attempt.ID, answers(3))
	m := w.memory()
	if m.Pending == nil || m.Pending.From != 0 || m.LastPrompted != 0 || m.Received != 0 {
		t.Errorf("after a compaction: %+v, want all of the memory pending", m)
	}
	expect.Equal(t, "compacted messages", w.state().Totals.CompactedMessages, int64(3))
	w.takes(prompt("x"), 1, answers(4))
	w.must(w.m.Renew(w.ctx, "alpha", "operator"))
	w.takes(prompt("x"), 1, answers(5))
	expect.Equal(t, "compacted messages of all", w.state().Totals.CompactedMessages, int64(4))
}

// Known secrets are in no record of memory.
func TestMemoryHidesSecrets(t *testing.T) {
	w := open(t)
	w.set(func(o *scheduler.Options) {
		o.Hide = func(data []byte) []byte { return bytes.ReplaceAll(data, []byte("hunter2"), []byte("*******")) }
	})
	end := answers(1)
	end.Last = "the password is hunter2"
	w.takes(prompt("x"), 1, end)
	w.takes(prompt("x"), 1, answers(2))
	expect.Equal(t, "decisions", fmt.Sprint(w.memory().Current.RecentDecisions), "[the password is ******* answer 2]")
}
