package workspace

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"holon/internal/durable"
	"holon/internal/folder"
	"holon/internal/procfs"
	"holon/runner/workspace/git"

	"golang.org/x/sys/unix"
)

// record is the host's knowledge of a working tree: the entries of its base, sorted by path, each with the
// stat data of the file as the host wrote it, and the stat data of its directories. It is stored in a file
// that only the host can write.
type record struct {
	format    git.ObjectFormat
	header    recordHeader
	sinceBoot bool // it was written during the present boot
	entries   []git.Entry
	dirs      []git.Entry // by path, the top as "."; their mode is all of st_mode, their oid zero
}

type recordHeader struct {
	Version  int    `json:"version"`
	Boot     string `json:"boot"`    // the boot during which it was written
	Stamp    int64  `json:"stamp"`   // when the tree was known to be as recorded; ns
	Tree     string `json:"tree"`    // hex id of the base
	Modules  string `json:"modules"` // digest of where the submodules' files come from
	Complete bool   `json:"complete"`
	// modification time of directories and of new files: when the base was taken up; ns
	Since  int64 `json:"since"`
	AtRest bool  `json:"at_rest"` // written when the tree was taken back: no container had it from then on
}

const (
	recordVersion = 3
	recordMagic   = "holon workspace record "

	// A file changed within one tick of the kernel's coarse clock after the record was made could have the recorded
	// change time. Ticks are at most 10 ms; such files count as changed.
	racyWindow = 20 * time.Millisecond
)

// same reports whether the file that was found at the entry's path is the one that the host wrote, untouched.
func (r *record) same(e *git.Entry, st *unix.Stat_t) bool {
	return e.Mode == git.ModeOf(uint32(st.Mode)) && r.untouched(e.Stat, st)
}

// untouched reports whether st is the recorded inode, without any change of content or metadata since.
func (r *record) untouched(recorded folder.Stat, st *unix.Stat_t) bool {
	ctime := int64(recorded.CtimeSec)*int64(time.Second) + int64(recorded.CtimeNsec)
	return r.sinceBoot && folder.StatOf(st) == recorded &&
		(r.header.AtRest || ctime <= r.header.Stamp-int64(racyWindow))
}

// write replaces the record at name. It does not sync: after a power cut the record may be lost or torn, which
// readRecord notices by the digest at its end, or belong to another boot, which it names. It returns the git
// index of the base, which is part of the record.
func (r *record) write(name string) (index []byte, err error) {
	r.header.Version, r.header.Boot, r.sinceBoot = recordVersion, bootID(), true
	header, err := json.Marshal(r.header)
	if err != nil {
		return nil, err
	}
	own, modules := splitModules(r.entries)
	data := fmt.Appendf(nil, "%s%s %s\n", recordMagic, r.format, header)
	index = git.EncodeIndex(r.format, own)
	data = append(data, index...)
	data = append(data, git.EncodeIndex(r.format, modules)...)
	data = append(data, git.EncodeIndex(r.format, r.dirs)...)
	sum := sha256.Sum256(data)
	return index, durable.Replace(name, append(data, sum[:]...))
}

// splitModules separates the files within submodules from the rest, which is usually everything.
func splitModules(entries []git.Entry) (own, modules []git.Entry) {
	if !slices.ContainsFunc(entries, func(e git.Entry) bool { return e.Module }) {
		return entries, nil
	}
	for _, e := range entries {
		if e.Module {
			modules = append(modules, e)
		} else {
			own = append(own, e)
		}
	}
	return own, modules
}

// readRecord returns the stored record, or an empty one if there is none or it can't be used.
func readRecord(name string, format git.ObjectFormat) *record {
	empty := &record{format: format}
	data, err := os.ReadFile(name)
	if err != nil {
		return empty
	}
	content := data[:max(0, len(data)-sha256.Size)]
	if sum := sha256.Sum256(content); !bytes.HasSuffix(data, sum[:]) {
		return empty
	}
	line, rest, _ := bytes.Cut(content, []byte("\n"))
	text, ok := strings.CutPrefix(string(line), recordMagic+string(format)+" ")
	r := &record{format: format}
	if !ok || json.Unmarshal([]byte(text), &r.header) != nil || r.header.Version != recordVersion {
		return empty
	}
	r.sinceBoot = r.header.Boot != "" && r.header.Boot == bootID()
	r.entries, rest = git.DecodeIndex(format, rest)
	modules, rest := git.DecodeIndex(format, rest)
	r.dirs, _ = git.DecodeIndex(format, rest)
	if len(modules) > 0 {
		for i := range modules {
			modules[i].Module = true
		}
		r.entries = append(r.entries, modules...)
		git.SortEntries(r.entries)
	}
	return r
}

// bootID identifies the present boot; "" where that is unknown.
func bootID() string {
	id, _ := procfs.BootID()
	return id
}
