package workspace

import (
	"bufio"
	"compress/zlib"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"holon/internal/folder"
)

// loose copies the loose objects of an agent's repository. Each is decompressed within bounds, hashed and
// compressed again, so that git later reads an object that matches its name, in a form that we wrote.
func (in *objectImport) loose(ctx context.Context, store folder.Dir) error {
	fans, err := store.Names()
	if err != nil {
		return err
	}
	for _, fan := range fans {
		if len(fan) != 2 || !isHex(fan) {
			continue
		}
		dir, err := store.Sub(fan)
		if err != nil {
			return fmt.Errorf("its objects can't be read: %w", err)
		}
		err = in.looseDir(ctx, dir, fan)
		dir.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

func (in *objectImport) looseDir(ctx context.Context, dir folder.Dir, fan string) error {
	names, err := dir.Names()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Join(in.into.Objects(), fan), 0o700); err != nil {
		return err
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		if len(name) != 2*in.format.Size()-2 || !isHex(name) {
			continue
		}
		file, _, err := dir.OpenFile(name)
		if err != nil {
			return fmt.Errorf("the object %s%s can't be read: %w", fan, name, err)
		}
		err = in.looseObject(file, filepath.Join(in.into.Objects(), fan, name), fan+name)
		file.Close()
		if err != nil {
			return fmt.Errorf("the object %s%s: %w", fan, name, err)
		}
	}
	return nil
}

func isHex(text string) bool { return strings.Trim(text, "0123456789abcdef") == "" }

// looseObject copies one object: zlib of "type SP size NUL content".
func (in *objectImport) looseObject(from io.Reader, to, id string) error {
	inflate, err := zlib.NewReader(bufio.NewReader(from))
	if err != nil {
		return err
	}
	content := bufio.NewReader(inflate)
	size, header, err := looseHeader(content)
	if err != nil {
		return err
	}
	if err := in.admit(size); err != nil {
		return err
	}
	file, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o400)
	if err != nil {
		return err
	}
	defer file.Close()
	buffered := bufio.NewWriter(file)
	deflate, err := zlib.NewWriterLevel(buffered, zlib.BestSpeed)
	if err != nil {
		return err
	}
	hash := in.format.NewHash()
	both := io.MultiWriter(hash, deflate)
	io.WriteString(both, header) // an error sticks to the writer
	n, err := io.Copy(both, io.LimitReader(content, size+1))
	if err == nil && n != size {
		err = fmt.Errorf("it does not have the %d bytes that it claims", size)
	}
	if err == nil && hex.EncodeToString(hash.Sum(nil)) != id {
		err = errors.New("its content is not what its name says")
	}
	return errors.Join(err, deflate.Close(), buffered.Flush(), file.Close())
}

// looseHeader reads "type SP size NUL".
func looseHeader(content *bufio.Reader) (size int64, header string, err error) {
	const longest = 32
	var text []byte
	for len(text) < longest {
		c, err := content.ReadByte()
		if err != nil {
			return 0, "", err
		}
		if text = append(text, c); c == 0 {
			break
		}
	}
	header = string(text)
	kind, digits, ok := strings.Cut(strings.TrimSuffix(header, "\x00"), " ")
	size, err = strconv.ParseInt(digits, 10, 64)
	known := kind == "commit" || kind == "tree" || kind == "blob" || kind == "tag"
	if !ok || !known || err != nil || size < 0 || strconv.FormatInt(size, 10) != digits ||
		!strings.HasSuffix(header, "\x00") {
		return 0, "", fmt.Errorf("it begins with %.40q", header)
	}
	return size, header, nil
}
