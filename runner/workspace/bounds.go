package workspace

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"holon/internal/folder"
	"holon/internal/gitname"
	"holon/internal/pattern"
	"holon/runner/workspace/git"
)

// maxCandidates times Limits.NameBytes bounds the names that a diff looks at. Most of them may be ignored by
// git's rules.
const maxCandidates = 3

// fits reports whether another new path is within the limits.
func (c *capture) fits(path string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	const overhead = 64 // of a path that is kept in memory
	c.seen, c.names = c.seen+1, c.names+len(path)+overhead
	message := ""
	switch most := maxCandidates * c.limits.NameBytes; {
	case c.seen > c.limits.Files:
		message = fmt.Sprintf("more than %d new paths; the rest is left out", c.limits.Files)
	case most > 0 && c.names > most:
		message = fmt.Sprintf("the names of new paths need more than %d bytes; the rest is left out", most)
	default:
		return true
	}
	if c.warnings.count[warnTooManyFiles] == 0 {
		c.leaveOut("", warnTooManyFiles, message)
	}
	return false
}

// admit drops files that a tree can't contain or that exceed the limits. It is called before deleted, so that a dropped
// file doesn't make others count as deleted.
func (c *capture) admit(files []found) []found {
	var sum int64
	names := 0
	return slices.DeleteFunc(files, func(f found) bool {
		_, name := folder.Split(f.path)
		if _, known := c.layout.files[f.path]; !known {
			names += changeSize(f.path)
		}
		switch {
		case c.limits.NameBytes > 0 && names > c.limits.NameBytes:
			c.omit(f.path, warnTooManyFiles, fmt.Sprintf("the names of the new files need more than %d bytes",
				c.limits.NameBytes))
		case len(f.path) > gitname.MaxPath || strings.Count(f.path, "/") > folder.MaxDepth:
			c.omit(f.path, warnTooDeep, "nested too deeply")
		case f.mode == git.ModeSymlink && gitname.IsDotGitmodules(name):
			c.omit(f.path, warnUnsafeName, "git refuses .gitmodules as a link")
		case f.size > c.limits.FileBytes:
			c.omit(f.path, warnFileTooLarge, fmt.Sprintf("%d bytes are more than the limit of %d", f.size,
				c.limits.FileBytes))
		case sum+f.size > c.limits.DiffBytes:
			c.omit(f.path, warnDiffTooLarge, fmt.Sprintf(
				"the changed files are larger than the limit of %d bytes together", c.limits.DiffBytes))
		default:
			sum += f.size
			return false
		}
		return true
	})
}

// changeSize estimates how many bytes a change of path needs in a manifest, where one that is not UTF-8 is there twice.
func changeSize(path string) int {
	text, _ := json.Marshal(path) // a string has a JSON form
	size := 200 + len(text)
	if !utf8.ValidString(path) {
		size += base64.StdEncoding.EncodedLen(len(path))
	}
	return size
}

// leftover is a name that the patch tool gives to files while it commits a patch. A tool killed in between leaves them
// behind.
var leftover = pattern.Lazy(`^\.holon-[0-9a-f]{12}-[0-9]+$`)
