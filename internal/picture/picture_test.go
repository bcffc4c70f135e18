package picture

import (
	"bytes"
	"embed"
	"image"
	"image/gif"
	"image/jpeg"
	"image/png"
	"io"
	"strings"
	"testing"

	"holon/test/expect"
)

//go:embed testdata/*.png testdata/*.webp
var files embed.FS

func encode(t testing.TB, as func(io.Writer, image.Image) error) []byte {
	t.Helper()
	var b bytes.Buffer
	expect.NoError(t, as(&b, image.NewGray(image.Rect(0, 0, 7, 5))))
	return b.Bytes()
}

func TestExamine(t *testing.T) {
	file := func(name string) []byte {
		data, err := files.ReadFile("testdata/" + name)
		expect.NoError(t, err)
		return data
	}
	sound := encode(t, png.Encode)
	asJPEG := encode(t, func(w io.Writer, m image.Image) error { return jpeg.Encode(w, m, nil) })
	asGIF := encode(t, func(w io.Writer, m image.Image) error { return gif.Encode(w, m, nil) })
	for name, tt := range map[string]struct {
		data    []byte
		kind    string
		refused string // part of the reason, "" when it may be shown
	}{
		"png":           {sound, "image/png", ""},
		"jpeg":          {asJPEG, "image/jpeg", ""},
		"gif":           {asGIF, "image/gif", ""},
		"lossy webp":    {file("lossy.webp"), "image/webp", ""},
		"lossless webp": {file("lossless.webp"), "image/webp", ""},
		"animated webp": {[]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02" + strings.Repeat("\x00", 9)),
			"image/webp", ""},
		"a wrong sum":     {file("badcrc.png"), "image/png", "invalid checksum"},
		"too many pixels": {file("bomb.png"), "image/png", "has 30000×30000 pixels"},
		"only a header":   {file("onlyhdr.png"), "image/png", "unexpected EOF"},
		"cut png":         {file("trunc.png"), "image/png", "not enough pixel data"},
		"too wide":        {file("wide.png"), "image/png", "has 9000×10 pixels"},
		"no width":        {file("zero_dim.png"), "image/png", "non-positive"},
		"cut jpeg":        {asJPEG[:len(asJPEG)-8], "image/jpeg", "unexpected EOF"},
		"cut gif":         {asGIF[:len(asGIF)-8], "image/gif", "cannot be decoded"},
		"cut webp":        {file("lossy.webp")[:30], "image/webp", "cannot be decoded"},
		"text":            {[]byte("no picture"), "", "is not PNG"},
		"nothing":         {nil, "", "is not PNG"},
	} {
		info, err := Examine(tt.data)
		expect.Equal(t, name, info.MediaType, tt.kind)
		if (err == nil) != (tt.refused == "") || err != nil && !strings.Contains(err.Error(), tt.refused) {
			t.Errorf("%s: %v, want %q", name, err, tt.refused)
		}
	}
}

func FuzzExamine(f *testing.F) {
	f.Add(encode(f, png.Encode))
	for _, start := range []string{"\x89PNG\r\n\x1a\n\x00\x00\x00\x0dIHDR", "\xff\xd8\xff\xe0", "GIF89a",
		"RIFF....WEBPVP8X"} {
		f.Add([]byte(start))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if info, err := Examine(data); err == nil && (info.MediaType == "" || info.Width < 1 || info.Height > maxSide) {
			t.Fatalf("%+v may be shown", info)
		}
	})
}
