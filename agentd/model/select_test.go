package model_test

import (
	"context"
	"iter"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/agentd/model"
	"holon/responses"
	"holon/test/expect"
)

// able is a transport that declares what it can do.
type able struct {
	attempts
	can model.Capabilities
}

func (a *able) Capabilities(string) model.Capabilities { return a.can }

// A candidate that cannot do what the request needs is not asked, and the next
// one is.
func TestSelection(t *testing.T) {
	image := responses.Part{Type: responses.PartInputImage, ImageURL: "data:x"}
	form := responses.TextConfig{Format: responses.TextFormat{Type: "json_schema"}}
	for name, tt := range map[string]struct {
		can  model.Capabilities
		req  model.Request
		says string
	}{
		"pictures of users": {model.Capabilities{},
			model.Request{Input: []responses.Item{&responses.Message{Content: []responses.Part{image}}}},
			"input_image"},
		"pictures of tools": {model.Capabilities{Files: true},
			model.Request{Input: []responses.Item{&responses.ToolCall{Media: []responses.Part{image}}}}, "input_image"},
		"outputs of clients": {model.Capabilities{},
			model.Request{Input: []responses.Item{&responses.FunctionCallOutput{Output: []responses.Part{image}}}},
			"input_image"},
		"tools": {model.Capabilities{NoTools: true}, model.Request{Tools: []model.Tool{{Name: "f"}}},
			"tools"},
		"forms": {model.Capabilities{NoStructured: true}, model.Request{Text: form}, "form"},
	} {
		t.Run(name, func(t *testing.T) {
			a := &able{can: tt.can}
			b := &able{attempts: attempts{plays: []play{{text: "b"}}},
				can: model.Capabilities{Images: true, Files: true, Video: true}}
			w := &watch{}
			tt.req.Observer = w
			chain := model.Chain(model.Candidate{Ref: "p/a", Transport: a, Policy: model.DefaultPolicy()},
				model.Candidate{Ref: "q/b", Transport: b, Policy: model.DefaultPolicy()})
			text, err := read(t.Context(), chain, tt.req)
			diff := cmp.Diff([]string{"p/a 1/3 fail_fast_aborted unsupported advanced", "q/b 1/3 succeeded"},
				w.lines)
			expect.Equal(t, "text", text, "b.")
			expect.Equal(t, "err", err, nil)
			expect.Equal(t, "diff", diff, "")
			if len(a.made) > 0 {
				t.Errorf("len(a.made) = %d (%+v), want at most 0", len(a.made), a.made)
			}
			_, err = read(t.Context(), model.Retry(a, "p/a", model.DefaultPolicy()), tt.req)
			e := model.AsError(err)
			expect.Equal(t, "e.Kind", e.Kind, model.KindUnsupported)
			expect.Contains(t, "e.Message", e.Message, tt.says)
			expect.Equal(t, "e.Diagnostics.Stage", e.Diagnostics.Stage, model.StageSelect)
			expect.Equal(t, "e.Response().Type", e.Response().Type, responses.TypeInvalidRequest)
			switch can := model.CapabilitiesOf(chain, ""); {
			case !can.Images:
				t.Error("can.Images = false, want true")
			case can.NoTools:
				t.Error("can.NoTools = true, want false")
			case can.NoStructured:
				t.Error("can.NoStructured = true, want false")
			}
		})
	}
}

// mute says something, if it is told to, and then nothing until its context ends.
type mute struct{ says string }

func (m mute) Stream(ctx context.Context, _ model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		if m.says != "" && (!yield(model.Event{Kind: model.MessageBegin}, nil) ||
			!yield(model.Event{Kind: model.TextDelta, Text: m.says}, nil)) {
			return
		}
		<-ctx.Done()
		yield(model.Event{}, model.Cancelled(ctx))
	}
}

// An attempt that takes too long is a failure like others: it is repeated as
// long as nothing was said.
func TestTotalTime(t *testing.T) {
	policy := model.DefaultPolicy()
	policy.Total = time.Minute
	for says, want := range map[string][]string{
		"":  {"p/m 1/3 retrying timeout", "p/m 2/3 retrying timeout", "p/m 3/3 retries_exhausted timeout"},
		"a": {"p/m 1/3 fail_fast_aborted timeout"},
	} {
		synctest.Test(t, func(t *testing.T) {
			w := &watch{}
			start := time.Now()
			_, err := read(t.Context(), model.Retry(mute{says}, "p/m", policy), model.Request{Observer: w})
			e := model.AsError(err)
			expect.Equal(t, "e.Kind", e.Kind, model.KindTimeout)
			expect.Equal(t, "e.Diagnostics.Timeout", e.Diagnostics.Timeout, true)
			expect.Contains(t, "e.Message", e.Message, "1m0s")
			if diff := cmp.Diff(want, w.lines); diff != "" {
				t.Errorf("%q after %s (-want +got):\n%s", says, time.Since(start), diff)
			}
		})
	}
	// The model is not to blame for the end of the turn.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := read(ctx, model.Retry(mute{}, "p/m", policy),
		model.Request{}); model.AsError(err).Kind != model.KindCancelled {
		t.Errorf("%v", err)
	}
}

func TestUnlistedProviders(t *testing.T) {
	r, err := model.NewResolver(model.Options{
		Transports: map[string]model.Transport{"openai": &attempts{}},
		Unlisted:   map[string]model.Transport{"rare": &attempts{plays: []play{{text: "r"}}}},
		Default:    "openai/m", Fallbacks: []string{"rare/x"},
	})
	expect.NoError(t, err)
	if m, err := r.Resolve("other"); err != nil || m.Ref != "openai/other" {
		t.Errorf("%s %v", m.Ref, err)
	}
	m, err := r.Resolve("rare/x/y")
	if err != nil || m.Name != "x/y" {
		t.Fatalf("%s %v", m.Name, err)
	}
	if text, err := read(t.Context(), m.Transport, model.Request{}); text != "r." {
		t.Errorf("%q %v", text, err)
	}
	if _, err := r.Resolve("absent/x"); err == nil || strings.Contains(err.Error(), "rare") {
		t.Errorf("%v", err)
	}
}
