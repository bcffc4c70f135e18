package worktree

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/rogpeppe/go-internal/diff"
)

// Modes of git.
const (
	modeFile       = "100644"
	modeExecutable = "100755"
	modeLink       = "120000"
)

// version is a file before or after a change. Of a symbolic link, data is the target.
type version struct {
	mode string
	data []byte
}

// writeChange writes the patch that turns before into after at path; nil is a missing file. A file that becomes a link,
// or a link that becomes a file, is removed and made anew, as git writes it.
func writeChange(b *bytes.Buffer, path string, before, after *version) {
	if before != nil && after != nil && (before.mode == modeLink) != (after.mode == modeLink) {
		writeChange(b, path, before, nil)
		before = nil
	}
	from, to := quote("a/"+path), quote("b/"+path)
	fmt.Fprintf(b, "diff --git %s %s\n", from, to)
	same := ""
	switch {
	case before == nil:
		fmt.Fprintf(b, "new file mode %s\n", after.mode)
		before, from = &version{}, "/dev/null"
	case after == nil:
		fmt.Fprintf(b, "deleted file mode %s\n", before.mode)
		after, to = &version{}, "/dev/null"
	case before.mode != after.mode:
		fmt.Fprintf(b, "old mode %s\nnew mode %s\n", before.mode, after.mode)
	default:
		same = " " + before.mode
	}
	oldID, newID := before.id(), after.id()
	if oldID != newID {
		fmt.Fprintf(b, "index %s..%s%s\n", oldID, newID, same)
	}
	if !bytes.Equal(before.data, after.data) {
		if isText(before.data) && isText(after.data) {
			b.Write(hunks(from, to, before.data, after.data))
		} else {
			writeBinary(b, before.data, after.data)
		}
	}
}

// id returns the id of git's blob with this content.
func (v *version) id() string {
	if v.mode == "" {
		return plumbing.ZeroHash.String()
	}
	return plumbing.ComputeHash(plumbing.BlobObject, v.data).String()
}

// Bounds of content that is compared line by line; beyond them it is written as binary.
const (
	maxTextBytes = 4 << 20
	maxTextLines = 100_000
)

func isText(data []byte) bool {
	return len(data) <= maxTextBytes && bytes.IndexByte(data, 0) < 0 && bytes.Count(data, []byte{'\n'}) <= maxTextLines
}

// hunks returns the header lines and the hunks of a text.
func hunks(from, to string, before, after []byte) []byte {
	text := diff.Diff(from, before, to, after)
	_, text, _ = bytes.Cut(text, []byte{'\n'}) // "diff FROM TO", which is not git's
	return text
}

// quote returns a name as git writes one that needs quoting, and any other as it is.
func quote(name string) string {
	plain := !strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r >= 0x7f || r == '"' || r == '\\' })
	if plain {
		return name
	}
	var b strings.Builder
	b.WriteByte('"')
	for i := range len(name) {
		switch c := name[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c < ' ' || c >= 0x7f:
			fmt.Fprintf(&b, `\%03o`, c)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// writeBinary writes both contents whole, in git's binary form.
func writeBinary(b *bytes.Buffer, before, after []byte) {
	b.WriteString("GIT binary patch\n")
	writeLiteral(b, after)
	writeLiteral(b, before)
}

// base85 is git's alphabet, which is not that of Ascii85.
const base85 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"

// writeLiteral writes compressed content in lines of at most 52 bytes, each behind its length.
func writeLiteral(b *bytes.Buffer, data []byte) {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, _ = z.Write(data) // a buffer takes everything
	_ = z.Close()
	fmt.Fprintf(b, "literal %d\n", len(data))
	for packed.Len() > 0 {
		line := packed.Next(52)
		if n := len(line); n <= 26 {
			b.WriteByte('A' + byte(n) - 1)
		} else {
			b.WriteByte('a' + byte(n) - 27)
		}
		for len(line) > 0 {
			var group [4]byte
			line = line[copy(group[:], line):]
			v := binary.BigEndian.Uint32(group[:])
			var digits [5]byte
			for i := 4; i >= 0; i-- {
				digits[i], v = base85[v%85], v/85
			}
			b.Write(digits[:])
		}
		b.WriteByte('\n')
	}
	b.WriteByte('\n')
}
