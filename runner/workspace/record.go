package workspace

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/procfs"
)

// Modes of an entry, as git writes them.
const (
	modeFile       = 0o100644
	modeExecutable = 0o100755
	modeSymlink    = 0o120000
	modeSubmodule  = 0o160000
)

// fileStat is the stat data that git keeps of a file. A process in a container
// can set any of it but the change time, which the kernel advances with every
// change of content or metadata; so equal data mean an unchanged file.
type fileStat struct {
	ctimeSec, ctimeNsec uint32
	mtimeSec, mtimeNsec uint32
	dev, ino            uint32
	uid, gid            uint32
	size                uint32
}

func statOf(st *unix.Stat_t) fileStat {
	return fileStat{
		ctimeSec: uint32(st.Ctim.Sec), ctimeNsec: uint32(st.Ctim.Nsec),
		mtimeSec: uint32(st.Mtim.Sec), mtimeNsec: uint32(st.Mtim.Nsec),
		dev: uint32(st.Dev), ino: uint32(st.Ino), uid: st.Uid, gid: st.Gid, size: uint32(st.Size),
	}
}

// entry is one path of a tree and the file that holds it.
type entry struct {
	path   string // slash-separated, any bytes but NUL
	mode   uint32
	oid    string // binary
	stat   fileStat
	module bool // a file within a submodule: compared, never part of a diff
}

// record is what the host knows of a working tree: the entries of its base,
// sorted by path, each with the stat data of the file as the host wrote it, and
// those of its directories. Held in a file only the host can write.
type record struct {
	format  objectFormat
	header  recordHeader
	entries []entry
	dirs    []entry // by path, the top as "."; their mode is all of st_mode, their oid zero
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
	recordVersion = 2
	recordMagic   = "holon workspace record "

	// A file changed within one tick of the kernel's coarse clock after the
	// record was made could have the recorded change time. Ticks are at most
	// 10 ms; such files count as changed.
	racyWindow = 20 * time.Millisecond
)

// verdict is what stat data say of a file.
type verdict int

const (
	same    verdict = iota
	verify          // likely the same: compare the content
	changed         // touched since it was recorded
)

// compare judges a file found at the entry's path.
func (r *record) compare(e *entry, st *unix.Stat_t, boot string) verdict {
	switch {
	case e.mode != gitMode(st.Mode) || !r.untouched(e.stat, st, boot):
		return changed
	case r.header.Boot != boot:
		return verify
	}
	return same
}

// untouched reports whether what was found is the recorded inode, without a
// change of content or of any metadata since.
func (r *record) untouched(recorded fileStat, st *unix.Stat_t, boot string) bool {
	found := statOf(st)
	recorded.dev = found.dev // device numbers change with a reboot
	if found != recorded {
		return false
	}
	if r.header.AtRest && r.header.Boot == boot {
		return true
	}
	ctime := int64(recorded.ctimeSec)*int64(time.Second) + int64(recorded.ctimeNsec)
	return ctime <= r.header.Stamp-int64(racyWindow)
}

// gitMode is the mode git gives to a file, 0 for what git can't hold.
func gitMode(mode uint32) uint32 {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if mode&0o100 != 0 {
			return modeExecutable
		}
		return modeFile
	case unix.S_IFLNK:
		return modeSymlink
	}
	return 0
}

// write stores the record beside name and renames. It isn't synced: after a
// power cut it may be lost or torn, which read notices, or belong to another
// boot, which compare notices. It returns the git index of the base, which is
// part of the record.
func (r *record) write(name string) (index []byte, err error) {
	header, err := json.Marshal(r.header)
	if err != nil {
		return nil, err
	}
	own, modules := splitModules(r.entries)
	data := fmt.Appendf(nil, "%s%s %s\n", recordMagic, r.format, header)
	index = encodeIndex(r.format, own)
	data = append(data, index...)
	data = append(data, encodeIndex(r.format, modules)...)
	data = append(data, encodeIndex(r.format, r.dirs)...)
	if err := os.WriteFile(name+".new", data, 0o600); err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	if err := os.Rename(name+".new", name); err != nil {
		return nil, fmt.Errorf("write record: %w", err)
	}
	return index, nil
}

// splitModules separates the files within submodules from the rest, which is
// usually everything.
func splitModules(entries []entry) (own, modules []entry) {
	if !slices.ContainsFunc(entries, func(e entry) bool { return e.module }) {
		return entries, nil
	}
	for _, e := range entries {
		if e.module {
			modules = append(modules, e)
		} else {
			own = append(own, e)
		}
	}
	return own, modules
}

// readRecord returns the stored record, or an empty one when there is none
// that can be used.
func readRecord(name string, format objectFormat) *record {
	empty := &record{format: format}
	data, err := os.ReadFile(name)
	if err != nil {
		return empty
	}
	line, rest, _ := bytes.Cut(data, []byte("\n"))
	text, ok := strings.CutPrefix(string(line), recordMagic+string(format)+" ")
	r := &record{format: format}
	if !ok || json.Unmarshal([]byte(text), &r.header) != nil || r.header.Version != recordVersion {
		return empty
	}
	if r.entries, rest, err = decodeIndex(format, rest); err != nil {
		return empty
	}
	modules, rest, err := decodeIndex(format, rest)
	if err != nil {
		return empty
	}
	if r.dirs, rest, err = decodeIndex(format, rest); err != nil || len(rest) > 0 {
		return empty
	}
	if len(modules) > 0 {
		for i := range modules {
			modules[i].module = true
		}
		r.entries = append(r.entries, modules...)
		sortEntries(r.entries)
	}
	return r
}

func sortEntries(entries []entry) {
	slices.SortFunc(entries, func(a, b entry) int { return strings.Compare(a.path, b.path) })
}

const (
	indexSignature  = "DIRC"
	indexHeaderSize = 12
	indexStatSize   = 40
	indexNameMask   = 0xfff
)

// encodeIndex writes entries, sorted by path, as a git index of version 2
// (gitformat-index(5)). The agent's index and our record share the format.
func encodeIndex(format objectFormat, entries []entry) []byte {
	size := indexHeaderSize + format.size()
	for i := range entries {
		size += indexStatSize + format.size() + 2 + len(entries[i].path) + 8
	}
	data := make([]byte, 0, size)
	data = append(data, indexSignature...)
	data = binary.BigEndian.AppendUint32(data, 2)
	data = binary.BigEndian.AppendUint32(data, uint32(len(entries)))
	for i := range entries {
		e := &entries[i]
		start := len(data)
		for _, field := range [...]uint32{e.stat.ctimeSec, e.stat.ctimeNsec, e.stat.mtimeSec, e.stat.mtimeNsec,
			e.stat.dev, e.stat.ino, e.mode, e.stat.uid, e.stat.gid, e.stat.size} {
			data = binary.BigEndian.AppendUint32(data, field)
		}
		data = append(data, e.oid...)
		data = binary.BigEndian.AppendUint16(data, uint16(min(len(e.path), indexNameMask)))
		data = append(data, e.path...)
		for pad := 8 - (len(data)-start)%8; pad > 0; pad-- {
			data = append(data, 0)
		}
	}
	hash := format.newHash()
	hash.Write(data)
	return hash.Sum(data)
}

var errBadIndex = errors.New("malformed index")

// decodeIndex reads what encodeIndex wrote and returns what follows it. It
// accepts no other index: no extensions, no flags, no unmerged entries.
func decodeIndex(format objectFormat, data []byte) (entries []entry, rest []byte, err error) {
	if len(data) < indexHeaderSize || string(data[:4]) != indexSignature || binary.BigEndian.Uint32(data[4:]) != 2 {
		return nil, nil, errBadIndex
	}
	count := int(binary.BigEndian.Uint32(data[8:]))
	fixed := indexStatSize + format.size() + 2
	if count > len(data)/fixed {
		return nil, nil, errBadIndex
	}
	text := string(data) // the one copy that every path and id is cut from
	entries = make([]entry, 0, count)
	at := indexHeaderSize
	for range count {
		if at+fixed >= len(data) {
			return nil, nil, errBadIndex
		}
		name := at + fixed
		length := bytes.IndexByte(data[name:], 0)
		if length <= 0 || int(binary.BigEndian.Uint16(data[name-2:])) != min(length, indexNameMask) {
			return nil, nil, errBadIndex
		}
		e := entry{path: text[name : name+length], oid: text[at+indexStatSize : name-2]}
		e.stat, e.mode = decodeStat(data[at:])
		if n := len(entries); n > 0 && entries[n-1].path >= e.path {
			return nil, nil, errBadIndex
		}
		entries = append(entries, e)
		at += (fixed+length)/8*8 + 8
	}
	if at+format.size() > len(data) {
		return nil, nil, errBadIndex
	}
	hash := format.newHash()
	hash.Write(data[:at])
	if !bytes.Equal(hash.Sum(nil), data[at:at+format.size()]) {
		return nil, nil, errBadIndex
	}
	return entries, data[at+format.size():], nil
}

func decodeStat(data []byte) (fileStat, uint32) {
	var field [10]uint32
	for i := range field {
		field[i] = binary.BigEndian.Uint32(data[4*i:])
	}
	return fileStat{ctimeSec: field[0], ctimeNsec: field[1], mtimeSec: field[2], mtimeNsec: field[3],
		dev: field[4], ino: field[5], uid: field[7], gid: field[8], size: field[9]}, field[6]
}

// bootID identifies the present boot. It is empty where that can't be known, and
// the empty one equals no recorded one.
func bootID() string {
	id, _ := procfs.BootID()
	return id
}
