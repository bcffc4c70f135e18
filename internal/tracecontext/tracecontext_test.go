package tracecontext_test

import (
	"context"
	"testing"

	"holon/internal/tracecontext"
)

const sample = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

func TestParse(t *testing.T) {
	for name, tc := range map[string]struct{ header, want string }{
		"sampled":                 {sample, sample},
		"not sampled":             {sample[:53] + "00", sample[:53] + "00"},
		"other flags":             {sample[:53] + "ff", sample},
		"a later version":         {"cc" + sample[2:] + "-what-comes", sample},
		"a later version, joined": {"cc" + sample[2:] + "what", ""},
		"the version that is not": {"ff" + sample[2:], ""},
		"too much":                {sample + "-00", ""},
		"upper case":              {"00-0AF7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", ""},
		"no trace":                {"00-00000000000000000000000000000000-b7ad6b7169203331-01", ""},
		"no span":                 {"00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", ""},
		"no hexadecimal":          {"00-0af7651916cd43dd8448eb211c80319x-b7ad6b7169203331-01", ""},
		"a dash elsewhere":        {"00-0af7651916cd43dd8448eb211c80319-cb7ad6b7169203331-01", ""},
		"cut":                     {sample[:54], ""},
		"nothing":                 {"", ""},
	} {
		if got := tracecontext.Parse(tc.header).String(); got != tc.want {
			t.Errorf("%s: Parse(%q) = %q, want %q", name, tc.header, got, tc.want)
		}
	}
}

// The ids follow from what a span is about, and nothing else.
func TestIDs(t *testing.T) {
	root := tracecontext.Root("turn_1")
	if !root.Valid() || root != tracecontext.Root("turn_1") || root.Trace == tracecontext.Root("turn_2").Trace {
		t.Errorf("Root(turn_1) = %v, want a trace of its own, the same each time", root)
	}
	child := root.Child("tool_1")
	if child.Trace != root.Trace || child.ID == root.ID || child != root.Child("tool_1") ||
		child.ID == root.Child("tool_2").ID || child.ID == tracecontext.Root("turn_2").Child("tool_1").ID {
		t.Errorf("Child(tool_1) = %v below %v, want a span of its own in the same trace", child, root)
	}
	root.Sampled = true
	if !root.Child("x").Sampled {
		t.Error("a span below one that is sampled is not")
	}
}

// Without a span there is nothing: no ids, no header, no memory.
func TestNone(t *testing.T) {
	ctx := t.Context()
	var none tracecontext.Span
	if got := none.Child("x"); got.Valid() || got.String() != "" || got.TraceID() != "" || got.SpanID() != "" {
		t.Errorf("below no span there is %v", got)
	}
	var kept context.Context
	if n := testing.AllocsPerRun(100, func() { kept = tracecontext.With(ctx, none.Child("x")) }); n != 0 || kept != ctx {
		t.Errorf("no span takes %v allocations", n)
	}
	if got := tracecontext.Of(ctx); got.Valid() {
		t.Errorf("a context without a span has %v", got)
	}
	if want := tracecontext.Parse(sample); tracecontext.Of(tracecontext.With(ctx, want)) != want {
		t.Error("a context does not keep its span")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample)
	f.Fuzz(func(t *testing.T, header string) {
		s := tracecontext.Parse(header)
		if s.Valid() && tracecontext.Parse(s.String()) != s {
			t.Errorf("%q is not read as it was written: %v", header, s)
		}
	})
}
