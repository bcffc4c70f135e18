package git

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"strconv"
)

// ObjectFormat is the hash function of a repository.
type ObjectFormat string

const (
	SHA1   ObjectFormat = "sha1"
	SHA256 ObjectFormat = "sha256"
)

func (f ObjectFormat) NewHash() hash.Hash {
	if f == SHA256 {
		return sha256.New()
	}
	return sha1.New()
}

// Size is the length of a binary object id.
func (f ObjectFormat) Size() int {
	if f == SHA256 {
		return sha256.Size
	}
	return sha1.Size
}

func (f ObjectFormat) Version() string {
	if f == SHA256 {
		return "1"
	}
	return "0"
}

func (f ObjectFormat) Extension() string {
	if f == SHA256 {
		return "[extensions]\n\tobjectformat = sha256\n"
	}
	return ""
}

// EmptyTree is the id of the tree without entries, which git always knows.
func (f ObjectFormat) EmptyTree() string {
	hash := f.NewHash()
	io.WriteString(hash, "tree 0\x00")
	return hex.EncodeToString(hash.Sum(nil))
}

// BlobID is the binary id of a blob of size bytes read from content. It fails when content is not of that size.
func (f ObjectFormat) BlobID(size int64, content io.Reader) (string, error) {
	hash := f.NewHash()
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
