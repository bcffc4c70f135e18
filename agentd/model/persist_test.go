package model_test

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holon/agentd/model"
	"holon/test/expect"

	"github.com/google/go-cmp/cmp"
)

// Groups of attempts follow each other for as long as the limit and the deadline of the turn allow, and not before the
// provider wishes.
func TestPersist(t *testing.T) {
	down := play{err: failure(model.KindOverloaded)}
	wish := func(d time.Duration) play {
		return play{err: &model.Error{Kind: model.KindRateLimited, RetryAfter: d}}
	}
	group := []play{down, down, down}
	for _, c := range []struct {
		name        string
		limit       time.Duration
		deadline    time.Duration // of the turn, 0 for none
		plays       []play
		text        string
		attempts    int
		least, most time.Duration
	}{
		{"a short outage", 2 * time.Minute, 0, slices.Concat(group, []play{down, {text: "a"}}), "a.", 5,
			2 * time.Second, 6 * time.Second},
		{"a wish beyond the quick retries", 2 * time.Minute, 0, []play{wish(35 * time.Second), {text: "a"}}, "a.", 2,
			35 * time.Second, 35 * time.Second},
		{"a wish beyond the limit", 2 * time.Minute, 0, []play{wish(121 * time.Second)}, "", 1, 0, 0},
		{"a wish beyond the deadline", 2 * time.Minute, 30 * time.Second, []play{wish(35 * time.Second)}, "", 1, 0, 0},
		{"no limit is set", 0, 0, group, "", 3, time.Second, 2 * time.Second},
		{"no use", time.Hour, 0, []play{{err: failure(model.KindAuthentication)}}, "", 1, 0, 0},
		{"a part of an answer is out", time.Hour, 0, []play{{text: "a", err: failure(model.KindTransport)}}, "a", 1,
			0, 0},
		// 2, 4, 8, 16, 32 and 64 seconds before the limit of 90 cuts the last
		{"an outage beyond the limit", 90 * time.Second, 0, slices.Repeat(group, 7), "", 21, 90 * time.Second,
			100 * time.Second},
		// 2, 4, 8 and 16 seconds and five groups take 47 at most with their jitter; 32 more end after 52 at least
		{"an outage beyond the deadline", time.Hour, 50 * time.Second, slices.Repeat(group, 5), "", 15,
			20 * time.Second, 50 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			ctx := t.Context()
			if c.deadline > 0 {
				bounded, cancel := context.WithTimeout(ctx, c.deadline)
				defer cancel()
				ctx = bounded
			}
			tr, w := &attempts{plays: c.plays}, &watch{}
			start := time.Now()
			text, err := read(ctx, model.Retry(tr, "p/m", model.DefaultPolicy()),
				model.Request{Observer: w, RetryFor: c.limit})
			took := time.Since(start)
			expect.Equal(t, c.name+": text", text, c.text)
			expect.Equal(t, c.name+": it fails", err != nil, len(c.text) == 0 || c.text[len(c.text)-1] != '.')
			expect.Equal(t, c.name+": attempts", len(tr.made), c.attempts)
			if took < c.least || took > c.most {
				t.Errorf("%s: it took %s, want %s to %s", c.name, took, c.least, c.most)
			}
			for i, req := range tr.made {
				expect.Equal(t, c.name+": number of an attempt", req.Attempt, i+1)
			}
		})
	}
}

// The last attempt of a group says how long the wait is; the pauses grow to two minutes.
func TestPausesOfPersist(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &attempts{plays: slices.Repeat([]play{{err: failure(model.KindOverloaded)}}, 200)}
		w := &pauses{}
		_, err := read(t.Context(), model.Retry(tr, "p/m", model.DefaultPolicy()),
			model.Request{Observer: w, RetryFor: 30 * time.Minute})
		expect.Equal(t, "kind", model.AsError(err).Kind, model.KindOverloaded)
		for i, got := range w.list {
			want := min(2*time.Second<<min(i, 10), 2*time.Minute)
			if i < len(w.list)-1 && (got < want*3/4 || got > min(want*5/4, 2*time.Minute)) {
				t.Errorf("pause %d is %s, want about %s", i+1, got, want)
			}
		}
		if n := len(w.list); n < 18 || n > 24 {
			t.Errorf("there were %d pauses in half an hour", n)
		}
	})
}

// pauses keeps the pauses after the last attempt of each group.
type pauses struct {
	watch
	list []time.Duration
}

func (p *pauses) AttemptEnded(a model.Attempt) {
	p.watch.AttemptEnded(a)
	if a.Number == a.Max && a.Backoff > 0 {
		p.list = append(p.list, a.Backoff)
	}
}

// A fallback is asked before anything is waited for, and after the wait the first model again.
func TestPersistAfterFallbacks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down := play{err: failure(model.KindOverloaded)}
		once := model.Policy{MaxPause: time.Second}
		a, b := &attempts{plays: []play{down, {text: "a"}}}, &attempts{plays: []play{down}}
		w := &pauses{}
		text, err := read(t.Context(), model.Chain(model.Candidate{Ref: "p/a", Transport: a, Policy: once},
			model.Candidate{Ref: "q/b", Transport: b, Policy: once}), model.Request{Observer: w, RetryFor: time.Minute})
		expect.NoError(t, err)
		expect.Equal(t, "text", text, "a.")
		expect.Equal(t, "waits", len(w.list), 1)
		expect.Equal(t, "attempts", slices.Equal(w.lines, []string{
			"p/a 1/1 retries_exhausted overloaded advanced", "q/b 1/1 retries_exhausted overloaded", "p/a 1/1 succeeded"}),
			true)
	})
}

// A model that failed fast is asked no more once another one answered, nor after a wait.
func TestFailFastIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		down, refused := play{err: failure(model.KindOverloaded)}, play{err: failure(model.KindAuthentication)}
		once := model.Policy{MaxPause: time.Second}
		chain := func(first ...play) (model.Transport, *watch) {
			a, b := &attempts{plays: first}, &attempts{plays: []play{down, {text: "b"}, {text: "b"}}}
			return model.Chain(model.Candidate{Ref: "p/a", Transport: a, Policy: once},
				model.Candidate{Ref: "q/b", Transport: b, Policy: once}), &watch{}
		}
		c, w := chain(refused, play{text: "a"})
		for range 2 {
			text, err := read(t.Context(), c, model.Request{Observer: w, RetryFor: time.Minute})
			expect.NoError(t, err)
			expect.Equal(t, "text", text, "b.")
		}
		if diff := cmp.Diff([]string{"p/a 1/1 fail_fast_aborted authentication advanced",
			"q/b 1/1 retries_exhausted overloaded", "q/b 1/1 succeeded", "q/b 1/1 succeeded"}, w.lines); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
		// Where none answered, the request was at fault as likely, and the next one is another.
		c, w = chain(refused, play{text: "a"})
		_, err := read(t.Context(), c, model.Request{Observer: w})
		expect.Equal(t, "it fails", err != nil, true)
		text, err := read(t.Context(), c, model.Request{Observer: w})
		expect.NoError(t, err)
		expect.Equal(t, "text", text, "a.")
	})
}

func TestPersistEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Second, cancel)
		tr := &attempts{plays: []play{{err: &model.Error{Kind: model.KindRateLimited, RetryAfter: time.Minute}}}}
		_, err := read(ctx, model.Retry(tr, "p/m", model.DefaultPolicy()),
			model.Request{RetryFor: time.Hour})
		expect.Equal(t, "kind", model.AsError(err).Kind, model.KindCancelled)
	})
}
