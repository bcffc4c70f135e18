package responses_test

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"strings"
	"testing"

	"holon/responses"
	"holon/test/expect"
)

// The smallest pictures that can be decoded.
const (
	png = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	gif = "R0lGODlhAQABAIAAAAAAAP///ywAAAAAAQABAAACAkQBADs="
	web = "UklGRiIAAABXRUJQVlA4IBYAAAAwAQCdASoBAAEADsD+JaQAA3AAAAAA"
)

func jpg(t *testing.T) string {
	t.Helper()
	var b bytes.Buffer
	expect.NoError(t, jpeg.Encode(&b, image.NewGray(image.Rect(0, 0, 1, 1)), nil))
	return base64.StdEncoding.EncodeToString(b.Bytes())
}

// The rule about addresses of content is the same wherever content stands.
func TestContentOfRequests(t *testing.T) {
	places := map[string]string{
		"input[0].":            `[PART]`,
		"input[0].content[1].": `[{"role":"user","content":[{"type":"input_text","text":"x"},PART]}]`,
		"input[0].output[0].":  `[{"type":"function_call_output","call_id":"c","output":[PART]}]`,
		"input[0].media[0].":   `[{"type":"holon:tool_call","call_id":"c","name":"f","media":[PART]}]`,
	}
	for _, tt := range []struct{ part, key, address, why string }{ // why: part of the reason, "" when taken
		{"image", "image_url", "https://example.com/cat.png", ""},
		{"image", "image_url", "HTTPS://EXAMPLE.COM:8443/ä?x=1#y", ""},
		{"image", "image_url", "data:image/png;base64," + png, ""},
		{"image", "image_url", "DATA:Image/PNG;base64," + png, "with the type in lower case"},
		{"image", "image_url", "data:image/jpeg;base64," + jpg(t), ""},
		{"image", "image_url", "data:image/jpg;base64," + jpg(t), ""},
		{"image", "image_url", "data:image/gif;base64," + gif, ""},
		{"image", "image_url", "data:image/webp;base64," + web, ""},
		{"image", "image_url", "data:image/gif;base64,R0lGODlh", "cannot be decoded"},
		{"image", "image_url", "data:image/png;base64," + png[:48], "cannot be decoded"},
		{"image", "image_url", "http://example.com/cat.png", "the scheme http is refused"},
		{"image", "image_url", "file:///etc/passwd", "the scheme file is refused"},
		{"image", "image_url", "javascript:alert(1)", "the scheme javascript is refused"},
		{"image", "image_url", "cat.png", "neither"},
		{"image", "image_url", "//example.com/cat.png", "neither"},
		{"image", "image_url", "https://", "without a host"},
		{"image", "image_url", "https:///cat.png", "without a host"},
		{"image", "image_url", "https://exa mple.com/", "neither"},
		{"image", "image_url", "data:image/svg+xml;base64,PHN2Zz4=", "images are PNG, JPEG, WebP or GIF"},
		{"image", "image_url", "data:image/tiff;base64,SUkqAA==", "images are PNG, JPEG, WebP or GIF"},
		{"image", "image_url", "data:text/plain;base64,aGk=", "images are PNG, JPEG, WebP or GIF"},
		{"image", "image_url", "data:image/png;base64,/9j/4AAQ", "is not what it says"},
		{"image", "image_url", "data:image/webp;base64,UklGRiQAAABXQVZF", "is not what it says"},
		{"image", "image_url", "data:image/png;base64,", "is not what it says"},
		{"image", "image_url", "data:image/png;base64,iVBORw0KGgo", "not base64"},
		{"image", "image_url", "data:image/png;base64,iVBO Rw0KGgo=", "not base64"},
		{"image", "image_url", `data:image/png;base64,iVBO\nRw0KGgo=`, "not base64"},
		{"image", "image_url", "data:image/png,x", "of the form"},
		{"image", "image_url", "data:;base64," + png, "no media type"},
		{"image", "image_url", "data:", "of the form"},
		{"image", "file_id", "file-1", "uploaded files are not offered"},
		{"file", "file_url", "https://example.com/report.pdf", ""},
		{"file", "file_url", "http://example.com/report.pdf", "the scheme http is refused"},
		{"file", "file_url", "data:application/pdf;base64,JVBERi0=", "belongs in file_data"},
		{"file", "file_data", "data:application/pdf;base64,JVBERi0=", ""},
		{"file", "file_data", "data:text/markdown;charset=utf-8;base64,IyBI", ""},
		{"file", "file_data", "data:application/json;base64,e30=", ""},
		{"file", "file_data", "data:text/plain;base64,", ""},
		{"file", "file_data", "data:image/png;base64," + png, ""},
		{"file", "file_data", "data:application/pdf;base64,AAAA", "is not what it says"},
		{"file", "file_data", "data:application/zip;base64,UEsDBAA=", "is not text"},
		{"file", "file_data", "JVBERi0=", "of the form"},
		{"file", "file_data", "https://example.com/report.pdf", "of the form"},
		{"file", "file_id", "file-1", "uploaded files are not offered"},
		{"video", "video_url", "https://example.com/clip.mp4", ""},
		{"video", "video_url", "data:video/mp4;base64,AAAA", ""},
		{"video", "video_url", "data:image/png;base64," + png, "must be a video"},
		{"video", "video_url", "http://example.com/clip.mp4", "the scheme http is refused"},
	} {
		part := fmt.Sprintf(`{"type":"input_%s","%s":"%s"}`, tt.part, tt.key, tt.address)
		for place, input := range places {
			if tt.part == "video" && place == "input[0]." {
				continue // an item of another server
			}
			_, err := responses.DecodeRequest([]byte(`{"input":` + strings.Replace(input, "PART", part, 1) + `}`))
			e, _ := errors.AsType[*responses.Error](err)
			switch {
			case tt.why == "" && err != nil:
				t.Errorf("%s%s: %v, want no error", place, part, err)
			case tt.why != "" && (e == nil || e.Param != place+tt.key || !strings.Contains(e.Message, tt.why)):
				t.Errorf("%s%s: %+v, want param %s and a message with %q", place, part, e, place+tt.key, tt.why)
			}
		}
	}
}
