// Package picture decides whether data is a picture that models can be shown. A provider refuses a whole request for
// one broken picture in it, and so every later request of the conversation.
//
// The invariant: what passes is of a format that providers take, by its bytes and not by what it is called, has
// dimensions that they take, and can be decoded to its end. Data whose dimensions are too large is not decoded.
package picture

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	_ "image/gif" // each registers its format
	"image/jpeg"
	"image/png"
	"slices"

	_ "golang.org/x/image/webp"
)

// Bounds of a picture, in pixels. The strictest provider takes maxSide; maxPixels bounds the memory for decoding.
const (
	maxSide   = 8000
	maxPixels = 25_000_000
)

// Info is what the bytes of a picture say.
type Info struct {
	MediaType     string // "" for no picture
	Width, Height int    // zeros where the header cannot be read
}

// Examine returns what data is. The error says, as the end of a sentence about the picture, why models cannot be shown
// it. Of an animation only the first picture is decoded, since providers show no other.
func Examine(data []byte) (Info, error) {
	config, format, err := image.DecodeConfig(bytes.NewReader(data))
	if !slices.Contains([]string{"png", "jpeg", "gif", "webp"}, format) {
		return Info{}, errors.New("is not PNG, JPEG, GIF or WebP")
	}
	info := Info{MediaType: "image/" + format, Width: config.Width, Height: config.Height}
	switch {
	case err != nil:
		return info, fmt.Errorf("cannot be decoded: %w", err)
	case info.Width < 1 || info.Height < 1:
		return info, errors.New("has no pixels")
	case info.Width > maxSide || info.Height > maxSide || info.Width*info.Height > maxPixels:
		return info, fmt.Errorf("has %d×%d pixels; it may be %d wide and high, and have %d million in all", info.Width,
			info.Height, maxSide, maxPixels/1_000_000)
	case animatedWebP(data):
		return info, nil
	}
	_, _, err = image.Decode(bytes.NewReader(data))
	_, png := errors.AsType[png.UnsupportedError](err)
	_, jpeg := errors.AsType[jpeg.UnsupportedError](err)
	if err != nil && !png && !jpeg { // a rare feature of the format is left to the provider
		return info, fmt.Errorf("cannot be decoded: %w", err)
	}
	return info, nil
}

// animatedWebP reports whether data is an animation, which the decoder does not know.
func animatedWebP(data []byte) bool {
	const flags, animation = 20, 1 << 1
	return len(data) > flags && bytes.HasPrefix(data[8:], []byte("WEBPVP8X")) && data[flags]&animation != 0
}
