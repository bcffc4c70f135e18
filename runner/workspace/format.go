package workspace

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strconv"
	"strings"
)

// objectFormat is the hash function of a repository.
type objectFormat string

const (
	formatSHA1   objectFormat = "sha1"
	formatSHA256 objectFormat = "sha256"
)

func (f objectFormat) newHash() hash.Hash {
	if f == formatSHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// size is the length of a binary object id.
func (f objectFormat) size() int {
	if f == formatSHA256 {
		return sha256.Size
	}
	return sha1.Size
}

func (f objectFormat) version() string {
	if f == formatSHA256 {
		return "1"
	}
	return "0"
}

func (f objectFormat) extension() string {
	if f == formatSHA256 {
		return "[extensions]\n\tobjectformat = sha256\n"
	}
	return ""
}

// emptyTree is the id of the tree without entries, which git always knows.
func (f objectFormat) emptyTree() string {
	hash := f.newHash()
	io.WriteString(hash, "tree 0\x00")
	return hex.EncodeToString(hash.Sum(nil))
}

// blobID is the binary id of a blob of size bytes read from content. It fails
// when content is not of that size.
func (f objectFormat) blobID(size int64, content io.Reader) (string, error) {
	hash := f.newHash()
	io.WriteString(hash, "blob "+strconv.FormatInt(size, 10)+"\x00")
	n, err := io.Copy(hash, io.LimitReader(content, size+1))
	if err != nil {
		return "", err
	}
	if n != size {
		return "", fmt.Errorf("read %d bytes of a file of %d", n, size)
	}
	return string(hash.Sum(nil)), nil
}

// quotePath writes a path as git's C-style quoted string, which round-trips
// every byte but NUL.
func quotePath(path string) string {
	var b strings.Builder
	b.Grow(len(path) + 2)
	b.WriteByte('"')
	for i := range len(path) {
		switch c := path[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, "\\%03o", c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}
