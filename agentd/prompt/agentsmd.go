package prompt

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"holon/internal/roots"
	"holon/internal/visible"
)

// maxAgentsMD bounds the text of one AGENTS.md, in bytes.
const maxAgentsMD = 32 << 10

// agentInstructions reads the agent's own AGENTS.md.
func agentInstructions(home string) Source {
	return instructions("agent", home, []file{{"AGENTS.md", kindAgentsMD}},
		"# Instructions of the agent\n\nThe file %s says how this agent works:")
}

// workspaceInstructions reads AGENTS.md in the anchor of the workspace, or CLAUDE.md where there is none, and those of
// the directories from there, or from the top of the repository, to the one where the turn works.
func workspaceInstructions(anchor, workDir string) Source {
	var all Source
	for i, dir := range levels(anchor, workDir) {
		about := "# Instructions of the workspace\n\nThe file %s says how to work in this tree. It holds for work in the " +
			"tree and allows nothing that the user did not ask for:"
		if i > 0 && all.Text != "" {
			about = "The file %s says how to work in its directory, where it counts before those above:"
		}
		one := instructions("workspace", dir, []file{{"AGENTS.md", kindAgentsMD}, {"CLAUDE.md", kindClaudeMD}}, about)
		switch {
		case i == 0 || all.Path == "":
			all = one
		case one.Path != "":
			path, kind := all.Path, all.Kind
			note := strings.TrimPrefix(all.Note+"; "+one.Note, "; ")
			all = newSource("workspace", kind, all.Text+"\n\n"+one.Text)
			all.Path, all.Note = path, strings.TrimSuffix(note, "; ")
		}
	}
	return all
}

// maxLevels bounds the directories whose instructions count.
const maxLevels = 16

// levels are the directories whose instructions count, the outermost first: from the anchor, or the top of the
// repository that workDir is in, to workDir.
func levels(anchor, workDir string) []string {
	top := anchor
	if anchor == workDir {
		for dir, n := workDir, 0; dir != "" && n < maxLevels; dir, n = filepath.Dir(dir), n+1 {
			if _, err := os.Lstat(filepath.Join(dir, ".git")); err == nil {
				top = dir
				break
			}
		}
	}
	below, err := filepath.Rel(top, workDir)
	if anchor == "" || workDir == "" || err != nil || !filepath.IsLocal(below) {
		return []string{anchor}
	}
	dirs := []string{top}
	for name := range strings.SplitSeq(below, string(filepath.Separator)) {
		if name != "." && len(dirs) < maxLevels {
			dirs = append(dirs, filepath.Join(dirs[len(dirs)-1], name))
		}
	}
	return dirs
}

type file struct{ name, kind string }

// instructions reads the first of the files that exists in dir. If it cannot be used,
// the source has a note, and the other files are not tried.
func instructions(name, dir string, files []file, about string) Source {
	none := newSource(name, files[0].kind, "")
	if dir == "" {
		return none
	}
	root, err := roots.Open(dir)
	if err != nil {
		return none
	}
	defer root.Close()
	for _, f := range files {
		if _, err := root.Lstat(f.name); errors.Is(err, fs.ErrNotExist) {
			continue
		}
		text, size, err := read(root, f.name)
		path := filepath.Join(dir, f.name)
		src := newSource(name, f.kind, "")
		if err == nil && strings.TrimSpace(text) != "" {
			src = newSource(name, f.kind, enclose(fmt.Sprintf(about, oneLine(path)), text))
		}
		src.Path = path
		switch {
		case err != nil:
			src.Note = "left out: " + reason(err)
		case size > maxAgentsMD:
			src.Note = fmt.Sprintf("cut: the file has %d bytes, %d are used", size, maxAgentsMD)
		}
		return src
	}
	return none
}

// read returns the beginning of a file, cleaned, and the file's size. Links out of
// root are not followed.
func read(root *os.Root, name string) (text string, size int64, err error) {
	f, info, err := roots.OpenFile(root, name)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxAgentsMD+1))
	if err != nil {
		return "", 0, err
	}
	size = max(info.Size(), int64(len(data)))
	if len(data) <= maxAgentsMD {
		return visible.Text(string(data)), size, nil
	}
	text = visible.Text(string(data[:maxAgentsMD]))
	if i := strings.LastIndexByte(text, '\n'); i > 0 {
		text = text[:i]
	}
	return text + fmt.Sprintf("\n[The file goes on: it has %d bytes. Read the rest there.]", size), size, nil
}

// reason says in a line why a file could not be used.
func reason(err error) string {
	switch {
	case errors.Is(err, roots.ErrNotRegular):
		return err.Error()
	case errors.Is(err, fs.ErrPermission):
		return "it cannot be read; look at its permissions"
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ELOOP):
		return "it is a link that leads nowhere"
	}
	return "it leads out of its directory, or cannot be read: " + oneLine(err.Error())
}
