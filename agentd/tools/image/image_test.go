package image

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"holon/agentd/tools"
	"holon/test/expect"
)

// Two WebP files of one pixel, lossy and lossless.
const (
	webpLossy    = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"
	webpLossless = "UklGRhoAAABXRUJQVlA4TA0AAAAvAAAAEAcQERGIiP4HAA=="
)

type harness struct {
	t   *testing.T
	reg *tools.Registry
	env tools.Env
}

func newHarness(t *testing.T) *harness {
	t.Helper()
	tool, err := New()
	expect.NoError(t, err)
	reg, err := tools.NewRegistry(tool)
	expect.NoError(t, err)
	return &harness{t, reg, tools.Env{WorkDir: t.TempDir(), Images: true}}
}

func (h *harness) file(name string, data []byte) {
	h.t.Helper()
	path := filepath.Join(h.env.WorkDir, name)
	expect.NoError(h.t, os.MkdirAll(filepath.Dir(path), 0o700))
	expect.NoError(h.t, os.WriteFile(path, data, 0o600))
}

func (h *harness) view(args map[string]any) tools.Outcome {
	h.t.Helper()
	raw, err := json.Marshal(args)
	expect.NoError(h.t, err)
	o := h.reg.Run(h.t.Context(), h.env, tools.Call{ID: "c", Name: name, Arguments: raw})
	expect.NoError(h.t, o.Fault)
	return o
}

func encoded(t *testing.T, encode func(*bytes.Buffer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	expect.NoError(t, encode(&b, image.NewGray(image.Rect(0, 0, 7, 5))))
	return b.Bytes()
}

func unbase64(t *testing.T, s string) []byte {
	t.Helper()
	b, err := base64.StdEncoding.DecodeString(s)
	expect.NoError(t, err)
	return b
}

func TestShows(t *testing.T) {
	h := newHarness(t)
	pngData := encoded(t, func(b *bytes.Buffer, i image.Image) error { return png.Encode(b, i) })
	h.file("a/plot.txt", pngData) // the name does not matter
	h.file("b.jpg", encoded(t, func(b *bytes.Buffer, i image.Image) error { return jpeg.Encode(b, i, nil) }))
	h.file("c.gif", encoded(t, func(b *bytes.Buffer, i image.Image) error { return gif.Encode(b, i, nil) }))
	h.file("d.webp", unbase64(t, webpLossy))
	h.file("e.webp", unbase64(t, webpLossless))
	expect.NoError(t, os.Symlink("a/plot.txt", filepath.Join(h.env.WorkDir, "link.png")))
	tests := []struct {
		path, mediaType string
		width, height   int
	}{
		{"a/plot.txt", "image/png", 7, 5}, {"link.png", "image/png", 7, 5},
		{filepath.Join(h.env.WorkDir, "a", "plot.txt"), "image/png", 7, 5},
		{"b.jpg", "image/jpeg", 7, 5}, {"./c.gif", "image/gif", 7, 5}, {"d.webp", "image/webp", 1, 1},
		{"e.webp", "image/webp", 1, 1},
	}
	for _, tt := range tests {
		o := h.view(map[string]any{"path": tt.path})
		var r result
		if err := json.Unmarshal(o.Canonical.Result, &r); err != nil {
			t.Fatalf("%s: %+v", tt.path, o.Canonical)
		}
		expect.Equal(t, fmt.Sprintf("%s: r.MediaType", tt.path), r.MediaType, tt.mediaType)
		expect.Equal(t, fmt.Sprintf("%s: r.Width", tt.path), r.Width, tt.width)
		expect.Equal(t, fmt.Sprintf("%s: r.Height", tt.path), r.Height, tt.height)
		expect.Equal(t, fmt.Sprintf("%s: r.Shown", tt.path), r.Shown, true)
		switch {
		case len(o.Images) != 1:
			t.Errorf("%s: len(o.Images) = %d (%+v), want 1", tt.path, len(o.Images), o.Images)
		case o.Images[0].MediaType != tt.mediaType:
			t.Errorf("%s: o.Images[0].MediaType = %q, want %q", tt.path, o.Images[0].MediaType, tt.mediaType)
		case o.Images[0].Detail != "auto":
			t.Errorf(`%s: o.Images[0].Detail = %q, want "auto"`, tt.path, o.Images[0].Detail)
		case int64(len(o.Images[0].Data)) != r.Bytes:
			t.Errorf("%s: int64(len(o.Images[0].Data)) = %d, want %d", tt.path, int64(len(o.Images[0].Data)), r.Bytes)
		}
	}
	o := h.view(map[string]any{"path": "a/plot.txt", "detail": "low"})
	if !bytes.Equal(o.Images[0].Data, pngData) || o.Images[0].Detail != "low" {
		t.Error("another picture or detail")
	}
	if diff := cmp.Diff("Picture shown: a/plot.txt (png, 7×5, 70 bytes)", o.Rendered); diff != "" &&
		len(pngData) == 70 {
		t.Error(diff)
	}
}

// A model that takes no pictures gets text, and nothing else.
func TestModelWithoutPictures(t *testing.T) {
	h := newHarness(t)
	h.env.Images = false
	h.file("d.webp", unbase64(t, webpLossy))
	o := h.view(map[string]any{"path": "d.webp"})
	if want := "Picture not shown, because this model takes no pictures: d.webp (webp, 1×1, 42 " +
		"bytes)"; o.Rendered != want || len(o.Images) != 0 {
		t.Errorf("%q with %d pictures", o.Rendered, len(o.Images))
	}
}

func TestRefuses(t *testing.T) {
	h := newHarness(t)
	outside := filepath.Join(t.TempDir(), "secret.png")
	expect.NoError(t, os.WriteFile(outside, encoded(t, func(b *bytes.Buffer, i image.Image) error {
		return png.Encode(b, i)
	}), 0o600))
	h.file("text.png", []byte("no picture"))
	h.file("empty.png", nil)
	h.file("short.webp", []byte("RIFF"))
	h.file("cut.png", encoded(t, func(b *bytes.Buffer, i image.Image) error { return png.Encode(b, i) })[:40])
	h.file("dir/x", nil)
	for name, target := range map[string]string{"abs.png": outside, "up": "..", "loop": "loop", "null": "/dev/null"} {
		expect.NoError(t, os.Symlink(target, filepath.Join(h.env.WorkDir, name)))
	}
	expect.NoError(t, unix.Mkfifo(filepath.Join(h.env.WorkDir, "pipe"), 0o600))
	if f, err := os.Create(filepath.Join(h.env.WorkDir, "big.png")); err != nil || f.Truncate(MaxBytes+1) != nil ||
		f.Close() != nil {
		t.Fatal(err)
	}
	tests := []struct {
		args  map[string]any
		kind  string
		field string
	}{
		{map[string]any{}, tools.KindInvalidInput, "path"},
		{map[string]any{"path": ""}, tools.KindInvalidInput, "path"},
		{map[string]any{"path": 1}, tools.KindInvalidInput, "path"},
		{map[string]any{"path": "text.png", "detail": "huge"}, tools.KindInvalidInput, "detail"},
		{map[string]any{"path": "text.png", "url": "x"}, tools.KindInvalidInput, "url"},
		{map[string]any{"path": "none.png"}, kindMissing, "path"},
		{map[string]any{"path": "text.png/x"}, kindMissing, "path"},
		{map[string]any{"path": outside}, tools.KindRootViolation, "path"},
		{map[string]any{"path": "../x.png"}, tools.KindRootViolation, "path"},
		{map[string]any{"path": "abs.png"}, tools.KindRootViolation, "path"},
		{map[string]any{"path": "up/x.png"}, tools.KindRootViolation, "path"},
		{map[string]any{"path": "null"}, tools.KindRootViolation, "path"},
		{map[string]any{"path": "dir"}, kindNotRegular, "path"},
		{map[string]any{"path": "pipe"}, kindNotRegular, "path"},
		{map[string]any{"path": "big.png"}, kindTooLarge, "path"},
		{map[string]any{"path": "text.png"}, kindUnsupported, "path"},
		{map[string]any{"path": "empty.png"}, kindUnsupported, "path"},
		{map[string]any{"path": "short.webp"}, kindUnsupported, "path"},
		{map[string]any{"path": "cut.png"}, kindUnsupported, "path"},
	}
	for _, tt := range tests {
		o := h.view(tt.args)
		e := o.Canonical.Error
		switch {
		case e == nil:
			t.Errorf("%v: e = nil, want a value", tt.args)
		case e.Kind != tt.kind:
			t.Errorf("%v: e.Kind = %q, want %q", tt.args, e.Kind, tt.kind)
		case e.Details["field"] != tt.field:
			t.Errorf(`%v: e.Details["field"] = %v, want %q`, tt.args, e.Details["field"], tt.field)
		case e.RecoveryHint == "":
			t.Errorf(`%v: e.RecoveryHint = "", want another value`, tt.args)
		case len(o.Images) != 0:
			t.Errorf("%v: len(o.Images) = %d (%+v), want 0", tt.args, len(o.Images), o.Images)
		}
	}
	if o := h.view(map[string]any{"path": "loop"}); o.Canonical.Error == nil {
		t.Error("a loop of links is a picture")
	}
}
