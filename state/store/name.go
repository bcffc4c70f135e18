package store

import (
	"encoding"
	"encoding/base64"
	"fmt"
	"path/filepath"
	"strings"
	"unicode/utf8"
)

// fileName is the path of a file or the target of a link, which are bytes. In JSON, one that is not UTF-8 is base64
// behind a mark.
type fileName string

const inBase64 = "base64:"

var _ encoding.TextMarshaler = fileName("")

// MarshalText implements encoding.TextMarshaler.
func (n fileName) MarshalText() ([]byte, error) {
	if utf8.ValidString(string(n)) && !strings.HasPrefix(string(n), inBase64) {
		return []byte(n), nil
	}
	return base64.StdEncoding.AppendEncode([]byte(inBase64), []byte(n)), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (n *fileName) UnmarshalText(text []byte) error {
	encoded, is := strings.CutPrefix(string(text), inBase64)
	if !is {
		*n = fileName(text)
		return nil
	}
	data, err := base64.StdEncoding.DecodeString(encoded)
	if err != nil {
		return fmt.Errorf("a name of a file: %w", err)
	}
	*n = fileName(data)
	return nil
}

// validPath reports whether a path leads to something beneath the directory that it is in, as fs.ValidPath does of
// those that are UTF-8.
func validPath(path fileName) bool {
	p := string(path)
	return p != "." && filepath.IsLocal(p) && filepath.Clean(p) == p && !strings.ContainsRune(p, 0)
}
