package tui

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"holon/internal/visible"
	"holon/responses"
)

// maxFile bounds a file that is sent with a message, in bytes.
const maxFile = 20 << 20

// pastedPath is the path that a text is, as terminals write one that is dropped on them: quoted, with escaped spaces,
// or as a URL. It is "" for other text.
func pastedPath(text string) string {
	text = strings.TrimSpace(text)
	if text == "" || strings.ContainsRune(text, '\n') || len(text) > 4096 {
		return ""
	}
	if n := len(text); n > 1 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		text = text[1 : n-1]
	} else if u, err := url.Parse(text); err == nil && u.Scheme == "file" {
		text = u.Path
	} else {
		text = strings.NewReplacer(`\\`, `\`, `\`, "").Replace(text)
	}
	if !filepath.IsAbs(text) {
		return ""
	}
	return filepath.Clean(text)
}

// attach reads a file that goes with a message. It is an error where there is none, or one that cannot be sent.
func attach(path string) (attachment, error) {
	info, err := os.Stat(path)
	if err != nil {
		return attachment{}, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxFile {
		return attachment{}, fmt.Errorf("%q is no file of at most %s", path, visible.Size(maxFile))
	}
	f, err := os.Open(path)
	if err != nil {
		return attachment{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return attachment{}, fmt.Errorf("read a file to send: %w", err)
	}
	name := filepath.Base(path)
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	a := attachment{Name: name, Size: len(data)}
	coded := "data:" + kind + ";base64," + base64.StdEncoding.EncodeToString(data)
	switch {
	case kind == "image/png" || kind == "image/jpeg" || kind == "image/gif" || kind == "image/webp":
		a.Part = responses.Part{Type: responses.PartInputImage, ImageURL: coded}
	case strings.HasPrefix(kind, "text/") && utf8.Valid(data):
		return textFile(name, string(data)), nil
	default:
		a.Part = responses.Part{Type: responses.PartInputFile, FileName: name, FileData: coded}
	}
	return a, nil
}

// textFile is a text that goes with a message.
func textFile(name, text string) attachment {
	return attachment{Name: name, Size: len(text),
		Part: responses.InputText(fmt.Sprintf("<file name=%q>\n%s\n</file>", name, text))}
}
