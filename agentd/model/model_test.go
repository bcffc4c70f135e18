package model_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// attempts is a transport whose n-th attempt (of each) is the n-th function.
type attempts struct {
	plays []play
	made  []model.Request
}

// play is one attempt: text, then an error or the end.
type play struct {
	text string
	err  error
}

func (a *attempts) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		p := a.plays[len(a.made)]
		a.made = append(a.made, req)
		if p.text != "" && (!yield(model.Event{Kind: model.MessageBegin}, nil) ||
			!yield(model.Event{Kind: model.TextDelta, Text: p.text}, nil)) {
			return
		}
		if p.err != nil {
			if p.err != errNoEnd {
				yield(model.Event{}, p.err)
			}
			return
		}
		yield(model.Event{Kind: model.Done, Stop: model.StopEnd, RequestID: "r",
			Usage: responses.Usage{OutputTokens: 7, TotalTokens: 7}}, nil)
	}
}

var errNoEnd = errors.New("ends without a word")

// failure returns an error of a kind.
func failure(kind model.ErrorKind) *model.Error { return &model.Error{Kind: kind, Message: "x"} }

// watch notes attempts, one line each.
type watch struct {
	lines []string
	begun int
	last  model.Attempt
}

func (w *watch) AttemptStarted(model.Attempt) { w.begun++ }

func (w *watch) AttemptEnded(a model.Attempt) {
	line := fmt.Sprintf("%s %d/%d %s", a.Ref, a.Number, a.Max, a.Outcome)
	if a.Err != nil {
		line += " " + string(a.Err.Kind)
	}
	if a.Advanced {
		line += " advanced"
	}
	w.lines, w.last = append(w.lines, line), a
}

func read(ctx context.Context, t model.Transport, req model.Request) (text string, err error) {
	for ev, e := range t.Stream(ctx, req) {
		text += ev.Text
		if ev.Kind == model.Done {
			text += "."
		}
		err = e
	}
	return text, err
}

func TestRetry(t *testing.T) {
	wish := &model.Error{Kind: model.KindRateLimited, RetryAfter: 20 * time.Second}
	tooLong := &model.Error{Kind: model.KindRateLimited, RetryAfter: time.Hour}
	quota := &model.Error{Kind: model.KindRateLimited, Permanent: true}
	tests := []struct {
		name       string
		plays      []play
		text       string
		kind       model.ErrorKind
		lines      []string
		least, max time.Duration
	}{
		{"at once", []play{{text: "a"}}, "a.", "", []string{"p/m 1/3 succeeded"}, 0, 0},
		{"twice in vain", []play{{err: failure(model.KindTransport)}, {err: failure(model.KindOverloaded)},
			{text: "a"}}, "a.", "",
			[]string{"p/m 1/3 retrying transport", "p/m 2/3 retrying overloaded", "p/m 3/3 succeeded"},
			1125 * time.Millisecond, 1875 * time.Millisecond},
		{"exhausted", []play{{err: failure(model.KindOverloaded)}, {err: failure(model.KindOverloaded)},
			{err: failure(model.KindRateLimited)}}, "", model.KindRateLimited,
			[]string{"p/m 1/3 retrying overloaded", "p/m 2/3 retrying overloaded",
				"p/m 3/3 retries_exhausted rate_limited"}, 1125 * time.Millisecond, 1875 * time.Millisecond},
		{"the provider's wish", []play{{err: wish}, {text: "a"}}, "a.", "",
			[]string{"p/m 1/3 retrying rate_limited", "p/m 2/3 succeeded"}, 20 * time.Second, 20 * time.Second},
		{"a wish that is too long", []play{{err: tooLong}}, "", model.KindRateLimited,
			[]string{"p/m 1/3 retries_exhausted rate_limited"}, 0, 0},
		{"no use", []play{{err: quota}}, "", model.KindRateLimited, []string{"p/m 1/3 fail_fast_aborted rate_limited"},
			0, 0},
		{"fail fast", []play{{err: failure(model.KindAuthentication)}}, "", model.KindAuthentication,
			[]string{"p/m 1/3 fail_fast_aborted authentication"}, 0, 0},
		{"begun", []play{{text: "a", err: failure(model.KindTransport)}}, "a", model.KindTransport,
			[]string{"p/m 1/3 fail_fast_aborted transport"}, 0, 0},
		{"no end", []play{{text: "a", err: errNoEnd}}, "a", model.KindProtocol,
			[]string{"p/m 1/3 fail_fast_aborted protocol"}, 0, 0},
		{"a foreign error", []play{{err: errors.New("odd")}}, "", model.KindProtocol,
			[]string{"p/m 1/3 fail_fast_aborted protocol"}, 0, 0},
	}
	for _, tt := range tests {
		synctest.Test(t, func(t *testing.T) {
			tr := &attempts{plays: tt.plays}
			w := &watch{}
			start := time.Now()
			text, err := read(t.Context(), model.Retry(tr, "p/m", model.DefaultPolicy()), model.Request{Observer: w})
			if d := time.Since(start); d < tt.least || d > tt.max {
				t.Errorf("%s: paused %s", tt.name, d)
			}
			expect.Equal(t, tt.name+": text", text, tt.text)
			if tt.kind == "" != (err == nil) {
				t.Fatalf(`%s: tt.kind == "" = %v, want %v`, tt.name, tt.kind == "", (err == nil))
			}
			if err != nil && model.AsError(err).Kind != tt.kind {
				t.Errorf("%s: err != nil && model.AsError(err).Kind != tt.kind, want the contrary", tt.name)
			}
			if diff := cmp.Diff(tt.lines, w.lines); diff != "" || w.begun != len(w.lines) {
				t.Errorf("%s: %d begun (-want +got):\n%s", tt.name, w.begun, diff)
			}
			for i, req := range tr.made {
				expect.Equal(t, tt.name+": attempt", req.Attempt, i+1)
			}
			if err == nil && (w.last.Usage.TotalTokens != 7 || w.last.RequestID != "r" ||
				w.last.Stop != model.StopEnd) {
				t.Errorf("%s: %+v", tt.name, w.last)
			}
		})
	}
}

func TestRetryEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		tr := &attempts{plays: []play{{err: failure(model.KindTransport)}}}
		start := time.Now()
		_, err := read(ctx, model.Retry(tr, "p/m", model.DefaultPolicy()), model.Request{})
		e := model.AsError(err)
		expect.Equal(t, "e.Kind", e.Kind, model.KindCancelled)
		expect.Equal(t, "errors.Is(err, context.DeadlineExceeded)", errors.Is(err, context.DeadlineExceeded), true)
		expect.Equal(t, "time.Since(start)", time.Since(start), 100*time.Millisecond)
	})
}

func TestReaderMayStop(t *testing.T) {
	w := &watch{}
	a, b := &attempts{plays: []play{{text: "a"}}}, &attempts{}
	for range model.Chain(model.Candidate{Ref: "p/a", Transport: a, Policy: model.DefaultPolicy()},
		model.Candidate{Transport: b}).Stream(t.Context(), model.Request{Observer: w}) {
		break
	}
	if diff := cmp.Diff([]string{"p/a 1/3 fail_fast_aborted cancelled"}, w.lines); diff != "" || len(b.made) > 0 {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestFallback(t *testing.T) {
	tests := []struct {
		name  string
		first play
		text  string
		lines []string
	}{
		{"the first answers", play{text: "a"}, "a.", []string{"p/a 1/1 succeeded"}},
		{"the second answers", play{err: failure(model.KindAuthentication)}, "b.",
			[]string{"p/a 1/1 fail_fast_aborted authentication advanced", "q/b 1/1 succeeded"}},
		{"retries first", play{err: failure(model.KindOverloaded)}, "b.",
			[]string{"p/a 1/1 retries_exhausted overloaded advanced", "q/b 1/1 succeeded"}},
		{"too late", play{text: "a", err: failure(model.KindTransport)}, "a",
			[]string{"p/a 1/1 fail_fast_aborted transport"}},
		{"no other model helps", play{err: failure(model.KindContextLength)}, "",
			[]string{"p/a 1/1 fail_fast_aborted context_length"}},
		{"a scenario diverged", play{err: failure(model.KindScenario)}, "",
			[]string{"p/a 1/1 fail_fast_aborted scenario"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := &attempts{plays: []play{tt.first}}, &attempts{plays: []play{{text: "b"}}}
			chain := model.Chain(model.Candidate{Ref: "p/a", Name: "a", Transport: a},
				model.Candidate{Ref: "q/b", Name: "b", Transport: b})
			w := &watch{}
			text, err := read(t.Context(), chain, model.Request{Model: "other", Observer: w})
			if text != tt.text || (err == nil) != strings.HasSuffix(tt.text, ".") {
				t.Errorf("%q %v", text, err)
			}
			if diff := cmp.Diff(tt.lines, w.lines); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if a.made[0].Model != "a" || len(b.made) > 0 && b.made[0].Model != "b" {
				t.Errorf("asked for %v and %v", a.made, b.made)
			}
		})
	}
}

func TestFallbackWithoutSuccess(t *testing.T) {
	a, b := &attempts{plays: []play{{err: failure(model.KindAuthentication)}}},
		&attempts{plays: []play{{err: failure(model.KindOverloaded)}}}
	_, err := read(t.Context(), model.Chain(model.Candidate{Name: "a", Transport: a},
		model.Candidate{Name: "b", Transport: b}), model.Request{})
	if e := model.AsError(err); e.Kind != model.KindOverloaded {
		t.Errorf("%v, want the last candidate's error", err)
	}
}

// closed is a transport with a fixed list of models.
type closed struct{ attempts }

func (*closed) Models() []string { return []string{"demo"} }

func (*closed) Check(name string) error {
	if name == "broken" {
		return responses.Invalid("model", responses.CodeScenarioInvalid, "broken")
	}
	return nil
}

// keyless is a provider without a key.
type keyless struct{ attempts }

func (*keyless) Check(string) error {
	return responses.Invalid("model", responses.CodeMissingCredentials, "no key")
}

func TestResolver(t *testing.T) {
	all := map[string]model.Transport{"openai": &attempts{}, "scripted": &closed{}}
	two := map[string]model.Transport{"openai": &attempts{}, "other": &attempts{}, "scripted": &closed{}}
	spare := map[string]model.Transport{"openai": &attempts{}, "anthropic": &keyless{}, "scripted": &closed{}}
	tests := []struct {
		transports     map[string]model.Transport
		def, ref, full string
		code, says     string
	}{
		{all, "openai/gpt-5", "", "openai/gpt-5", "", ""},
		{all, "openai/gpt-5", "openai/gpt-4", "openai/gpt-4", "", ""},
		{all, "openai/gpt-5", "scripted/a/b.yaml", "scripted/a/b.yaml", "", ""},
		{all, "openai/gpt-5", "scripted//tmp/a.yaml", "scripted//tmp/a.yaml", "", ""},
		{all, "openai/gpt-5", "gpt-4", "openai/gpt-4", "", ""},
		{all, "openai/org/m", "org/m", "openai/org/m", "", ""},
		{all, "openai/gpt-5", "demo", "", responses.CodeModelNotFound, "openai/demo or scripted/demo"},
		// the default's own name wins over what else it may mean
		{all, "scripted/demo", "demo", "scripted/demo", "", ""},
		{all, "scripted/x", "x", "scripted/x", "", ""},
		{all, "scripted/x", "gpt-4", "", responses.CodeModelNotFound, "providers openai, scripted"},
		{two, "openai/gpt-5", "gpt-4", "", responses.CodeModelNotFound, "openai/gpt-4 or other/gpt-4"},
		{two, "openai/gpt-5", "gpt-5", "openai/gpt-5", "", ""},
		{spare, "openai/gpt-5", "gpt-4", "openai/gpt-4", "", ""},
		{spare, "anthropic/claude", "claude-2", "", responses.CodeModelNotFound,
			"anthropic/claude-2 or openai/claude-2"},
		{all, "openai/gpt-5", "anthropic/claude", "", responses.CodeModelNotFound,
			`"anthropic/claude" belongs to no configured provider; write provider/model ` +
				`with one of the providers openai, scripted`},
		{all, "openai/gpt-5", "openai/", "", responses.CodeModelNotFound, "no configured provider"},
		{all, "openai/gpt-5", strings.Repeat("x/", 1000), "", responses.CodeModelNotFound, "no configured provider"},
		{all, "", "", "", responses.CodeMissingParameter, "--model"},
		{all, "", "gpt-5", "", responses.CodeModelNotFound, "providers openai, scripted"},
		{all, "", "openai/gpt-5", "openai/gpt-5", "", ""},
		{all, "openai/gpt-5", "scripted/broken", "", responses.CodeScenarioInvalid, "broken"},
	}
	for _, tt := range tests {
		r, err := model.NewResolver(model.Options{Transports: tt.transports, Default: tt.def,
			Retry: model.DefaultPolicy()})
		expect.NoError(t, err)
		got, err := r.Resolve(tt.ref)
		if tt.code == "" {
			_, want, _ := strings.Cut(tt.full, "/")
			expect.Equal(t, fmt.Sprintf("%+v: err", tt), err, nil)
			if got.Transport == nil {
				t.Fatalf("%+v: got.Transport = nil, want a value", tt)
			}
			expect.Equal(t, fmt.Sprintf("%+v: got.Ref", tt), got.Ref, tt.full)
			expect.Equal(t, fmt.Sprintf("%+v: got.Name", tt), got.Name, want)
			continue
		}
		e, ok := errors.AsType[*responses.Error](err)
		if !ok {
			t.Fatalf("%.40q with default %q: %v; want %s: %s", tt.ref, tt.def, err, tt.code, tt.says)
		}
		expect.Equal(t, fmt.Sprintf("%+v: e.Code", tt), e.Code, tt.code)
		expect.Equal(t, fmt.Sprintf("%+v: e.Param", tt), e.Param, "model")
		expect.Contains(t, fmt.Sprintf("%+v: e.Error()", tt), e.Error(), tt.says)
		if len(e.Error()) > 500 {
			t.Errorf("%+v: len(e.Error()) = %d (%q), want at most 500", tt, len(e.Error()), e.Error())
		}
	}
}

func TestResolverFallbacks(t *testing.T) {
	denied := play{err: failure(model.KindAuthentication)}
	first := &attempts{plays: []play{denied, denied, denied, denied, denied}}
	second := &closed{attempts{plays: []play{{text: "b"}, {text: "b"}, {text: "b"}}}}
	r, err := model.NewResolver(model.Options{Transports: map[string]model.Transport{"openai": first,
		"scripted": second}, Default: "openai/gpt-5", Fallbacks: []string{"scripted/demo", "openai/gpt-4"}})
	expect.NoError(t, err)
	if got, want := r.Models(), []string{"openai/gpt-5", "scripted/demo", "openai/gpt-4"}; !slices.Equal(got, want) {
		t.Errorf("models %v, want %v", got, want)
	}
	for _, tt := range []struct {
		ref       string
		fallbacks []string
		want      []string // that are asked after the model
		says      string
	}{
		{"", nil, []string{"scripted/demo", "openai/gpt-4"}, "b."},
		{"gpt-5", nil, []string{"scripted/demo", "openai/gpt-4"}, "b."},
		{"openai/gpt-4", nil, nil, ""}, // it was asked for
		{"openai/gpt-4", []string{"openai/gpt-5", "scripted/demo"}, []string{"openai/gpt-5", "scripted/demo"}, "b."},
	} {
		m, err := r.Resolve(tt.ref, tt.fallbacks...)
		if err != nil || !slices.Equal(m.Fallbacks, tt.want) {
			t.Errorf("%+v: the fallbacks are %v, %v, want %v", tt, m.Fallbacks, err, tt.want)
		}
		text, err := read(t.Context(), m.Transport, model.Request{Model: m.Name})
		if text != tt.says || (err == nil) != (tt.says != "") {
			t.Errorf("%+v: the answer is %q, %v, want %q", tt, text, err, tt.says)
		}
	}
	_, err = r.Resolve("openai/gpt-4", "unknown/x")
	if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != "model" {
		t.Errorf("an unknown fallback: %v", err)
	}
	for _, opts := range []model.Options{
		{Default: "gpt-5"}, {Default: "openai/x", Fallbacks: []string{"unknown/x"}}, {Fallbacks: []string{"openai/x"}},
		{Default: "openai/"},
	} {
		opts.Transports = map[string]model.Transport{"openai": first}
		_, err := model.NewResolver(opts)
		if e, ok := errors.AsType[*responses.Error](err); !ok || e.Param != "model" {
			t.Errorf("%+v: %v", opts, err)
		}
	}
}
