package store

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"holon/test/expect"
)

// A manifest that leads out of its directory, or cannot be, is refused.
func TestManifest(t *testing.T) {
	digest := strings.Repeat("0a", 32)
	for name, tc := range map[string]struct {
		entries []entry
		ok      bool
	}{
		"right": {[]entry{{Path: "d", Kind: kindDir, Mode: 0o755}, {Path: "d/f", Kind: kindFile, SHA256: digest},
			{Path: "l", Kind: kindLink, Target: "../../etc/passwd"}}, true},
		"bytes": {[]entry{{Path: "d\xe9", Kind: kindDir}, {Path: "d\xe9/base64:x", Kind: kindLink, Target: "base64:\xff"}},
			true},
		"zero":               {[]entry{{Path: "a\x00b", Kind: kindDir}}, false},
		"unclean":            {[]entry{{Path: "d", Kind: kindDir}, {Path: "d/../e", Kind: kindDir}}, false},
		"out":                {[]entry{{Path: "../f", Kind: kindFile, SHA256: digest}}, false},
		"absolute":           {[]entry{{Path: "/f", Kind: kindFile, SHA256: digest}}, false},
		"itself":             {[]entry{{Path: ".", Kind: kindDir}}, false},
		"twice":              {[]entry{{Path: "f", Kind: kindDir}, {Path: "f", Kind: kindFile, SHA256: digest}}, false},
		"behind a link":      {[]entry{{Path: "l", Kind: kindLink, Target: "/"}, {Path: "l/f", Kind: kindDir}}, false},
		"no directory":       {[]entry{{Path: "d/f", Kind: kindDir}}, false},
		"digest with a path": {[]entry{{Path: "f", Kind: kindFile, SHA256: "../" + digest[3:]}}, false},
		"too large":          {[]entry{{Path: "f", Kind: kindFile, SHA256: digest, Size: maxFile + 1}}, false},
		"set-user-ID":        {[]entry{{Path: "f", Kind: kindFile, SHA256: digest, Mode: 0o4755}}, false},
		"another kind":       {[]entry{{Path: "f", Kind: "device"}}, false},
		"endless target":     {[]entry{{Path: "l", Kind: kindLink, Target: fileName(strings.Repeat("x", maxTarget+1))}}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m := &manifest{Schema: schema, Unit: "u", Revision: "r", Entries: tc.entries}
			data, err := m.encode()
			expect.NoError(t, err)
			got, err := decode("u", bytes.NewReader(data))
			if (err == nil) != tc.ok || tc.ok && !slices.Equal(got.Entries, tc.entries) {
				t.Errorf("got %+v, %v", got, err)
			}
			if _, err = decode("other", bytes.NewReader(data)); err == nil {
				t.Error("the manifest of another unit is taken")
			}
		})
	}
}

func TestURL(t *testing.T) {
	for text, ok := range map[string]bool{
		"s3://b/p":                                          true,
		"s3://b?endpoint=https://h:9&region=r":              true,
		"s3://b?endpoint=http://127.0.0.1:9":                true,
		"s3://b?endpoint=http://h:9":                        false,
		"s3://b?endpoint=http://h:9&insecure=true":          true,
		"s3://key:secret@b/p":                               false,
		"s3://b?secret=x":                                   false,
		"s3://b?endpoint=https://key:secret@h":              false,
		"s3://b?endpoint=ftp://h":                           false,
		"https://b/p":                                       false,
		"s3://":                                             false,
		"s3://b?endpoint=http://127.0.0.1.example.org:9000": false,
	} {
		if err := CheckURL(text); (err == nil) != ok {
			t.Errorf("%s: got %v", text, err)
		}
	}
}
