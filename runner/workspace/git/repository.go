package git

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// A Repository is a bare git directory that only the host writes.
type Repository struct {
	Dir        string
	Format     ObjectFormat
	Alternates []string // further object directories to read
}

// Create makes the repository's files anew; the directory must not exist.
// Written by hand because it is on the path of every run.
func (r Repository) Create() error {
	// The container's user, possibly another one, reads the objects, so the umask must have no effect. The directory
	// itself is private.
	for _, dir := range []string{"", "objects", "objects/info", "objects/pack", "refs", "refs/heads", "info"} {
		path, mode := filepath.Join(r.Dir, dir), os.FileMode(0o700)
		if strings.HasPrefix(dir, "objects") {
			mode = 0o755
		}
		if err := errors.Join(os.Mkdir(path, mode), os.Chmod(path, mode)); err != nil {
			return fmt.Errorf("create repository: %w", err)
		}
	}
	config := "[core]\n\trepositoryformatversion = " + r.Format.Version() +
		"\n\tfilemode = true\n\tbare = true\n\tsharedRepository = 0644\n" + r.Format.Extension()
	files := [][2]string{{"HEAD", "ref: refs/heads/holon\n"}, {"config", config}, {formatFile, string(r.Format)}}
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(r.Dir, file[0]), []byte(file[1]), 0o600); err != nil {
			return fmt.Errorf("create repository: %w", err)
		}
	}
	return nil
}

// formatFile is written last by create: it says that the repository is whole.
const formatFile = "holon-format"

// Usable reports whether create finished here, for the same object format.
func (r Repository) Usable() bool {
	format, err := os.ReadFile(filepath.Join(r.Dir, formatFile))
	return err == nil && string(format) == string(r.Format)
}

func (r Repository) Objects() string { return filepath.Join(r.Dir, "objects") }

func (r Repository) Git() Runner {
	return NewRunner(r.Dir, AlternatesVariable(r.Alternates))
}

// AlternatesVariable quotes paths so that a colon in one stays part of it.
func AlternatesVariable(dirs []string) string {
	quoted := make([]string, len(dirs))
	for i, dir := range dirs {
		quoted[i] = QuotePath(dir)
	}
	return "GIT_ALTERNATE_OBJECT_DIRECTORIES=" + strings.Join(quoted, ":")
}

// QuotePath writes a path as git's C-style quoted string, which round-trips every byte but NUL.
func QuotePath(path string) string {
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

// QuoteConfig quotes a value for a git configuration file.
func QuoteConfig(value string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`, "\t", `\t`, "\x00", "").Replace(value) + `"`
}
