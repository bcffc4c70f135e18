package prompt

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/internal/visible"
)

// CuratedFile is a file of the agent's home that the agent and its operator keep as memory.
type CuratedFile struct {
	Path string // in the home
	Text string // blank for one that is not there
}

// Bounds of what is shown of a curated file.
const (
	maxCurated = 6000 // characters
	maxLines   = 400  // of which digests are kept; one with more is always shown as a whole
)

// cut is what is shown of the file, "" for one without text: at most so many bytes and maxCurated characters, and how
// much that is not.
func (f CuratedFile) cut(space int) string {
	text := strings.TrimSpace(visible.Text(f.Text))
	kept, most := len(text), maxCurated
	for at, r := range text {
		if most--; most < 0 || at+utf8.RuneLen(r) > space {
			kept = at
			break
		}
	}
	if kept == len(text) {
		return text
	}
	return fmt.Sprintf("%s\n[… %d characters omitted, see agent_home/%s]", text[:kept],
		utf8.RuneCountInString(text[kept:]), f.Path)
}

// block shows the file to a conversation that keeps the digests of what it was shown before, "" for nothing: all of it,
// or the lines that changed where those are fewer than the others.
func (f CuratedFile) block(shown, before string) string {
	if shown == "" {
		return fmt.Sprintf("[curated memory] agent_home/%s is empty now. What you were shown of it before no longer "+
			"holds.", f.Path)
	}
	lines, now, old := strings.Split(shown, "\n"), fields(digests(shown)), fields(before)
	same := 0
	for same < min(len(now), len(old)) && now[same] == old[same] {
		same++
	}
	after := 0
	for after < min(len(now), len(old))-same && now[len(now)-1-after] == old[len(old)-1-after] {
		after++
	}
	changed := strings.Join(lines[same:len(lines)-after], "\n")
	if same+after == 0 || 2*len(changed) > len(shown) {
		return fmt.Sprintf("[curated memory] agent_home/%s as it is now:\n%s", f.Path, fenced(f.Path, shown, len(shown)))
	}
	return fmt.Sprintf("[curated memory] agent_home/%s as you were shown it, but with this in place of its %d lines "+
		"after line %d:\n%s", f.Path, len(old)-same-after, same, fenced(f.Path, changed, len(changed)))
}

// digestLen is the length of the digest of a line.
const digestLen = 8

// digests are what a conversation keeps of a text that it was shown: one after another those of its lines, or where
// there are too many the one of all, "" of no text.
func digests(text string) string {
	if text == "" {
		return ""
	}
	lines := strings.Split(text, "\n")
	if len(lines) > maxLines {
		return digest(text)
	}
	var all strings.Builder
	for _, line := range lines {
		all.WriteString(digest(line)[:digestLen])
	}
	return all.String()
}

// fields are the digests of lines.
func fields(digests string) (list []string) {
	for line := range slices.Chunk([]byte(digests), digestLen) {
		list = append(list, string(line))
	}
	return list
}
