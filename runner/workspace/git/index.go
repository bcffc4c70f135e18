package git

import (
	"encoding/binary"
	"slices"
	"strings"

	"holon/internal/folder"

	"golang.org/x/sys/unix"
)

// Modes of an entry, as git writes them.
const (
	modeFile       = 0o100644
	modeExecutable = 0o100755
	ModeSymlink    = 0o120000
	ModeSubmodule  = 0o160000
)

// Entry is one path of a tree and the file that holds it.
type Entry struct {
	Path   string // slash-separated, any bytes but NUL
	Mode   uint32
	Oid    string // binary
	Stat   folder.Stat
	Module bool // a file within a submodule: compared, never part of a diff
}

func SortEntries(entries []Entry) {
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
}

const (
	indexHeaderSize = 12
	indexStatSize   = 40
	indexNameMask   = 0xfff
)

// EncodeIndex writes entries, sorted by path, as a git index of version 2
// (gitformat-index(5)). The agent's index and our record share the format.
func EncodeIndex(format ObjectFormat, entries []Entry) []byte {
	size := indexHeaderSize + format.Size()
	for i := range entries {
		size += indexStatSize + format.Size() + 2 + len(entries[i].Path) + 8
	}
	data := make([]byte, 0, size)
	data = append(data, "DIRC"...)
	data = binary.BigEndian.AppendUint32(data, 2)
	data = binary.BigEndian.AppendUint32(data, uint32(len(entries)))
	for i := range entries {
		e := &entries[i]
		start := len(data)
		for _, field := range [...]uint32{e.Stat.CtimeSec, e.Stat.CtimeNsec, e.Stat.MtimeSec, e.Stat.MtimeNsec,
			e.Stat.Dev, e.Stat.Ino, e.Mode, e.Stat.Uid, e.Stat.Gid, e.Stat.Size} {
			data = binary.BigEndian.AppendUint32(data, field)
		}
		data = append(data, e.Oid...)
		data = binary.BigEndian.AppendUint16(data, uint16(min(len(e.Path), indexNameMask)))
		data = append(data, e.Path...)
		for pad := 8 - (len(data)-start)%8; pad > 0; pad-- {
			data = append(data, 0)
		}
	}
	hash := format.NewHash()
	hash.Write(data)
	return hash.Sum(data)
}

// DecodeIndex reads what EncodeIndex wrote, which the caller knows to be undamaged, and returns what follows it.
func DecodeIndex(format ObjectFormat, data []byte) (entries []Entry, rest []byte) {
	text := string(data) // the one copy that every path and id is cut from
	entries = make([]Entry, 0, binary.BigEndian.Uint32(data[8:]))
	at := indexHeaderSize
	for range cap(entries) {
		name := at + indexStatSize + format.Size() + 2
		length := strings.IndexByte(text[name:], 0)
		e := Entry{Path: text[name : name+length], Oid: text[at+indexStatSize : name-2]}
		e.Stat, e.Mode = decodeStat(data[at:])
		entries = append(entries, e)
		at += (name-at+length)/8*8 + 8
	}
	return entries, data[at+format.Size():]
}

func decodeStat(data []byte) (folder.Stat, uint32) {
	var field [10]uint32
	for i := range field {
		field[i] = binary.BigEndian.Uint32(data[4*i:])
	}
	return folder.Stat{CtimeSec: field[0], CtimeNsec: field[1], MtimeSec: field[2], MtimeNsec: field[3],
		Dev: field[4], Ino: field[5], Uid: field[7], Gid: field[8], Size: field[9]}, field[6]
}

// ModeOf returns git's mode for a file, 0 for a kind of file that git can't store.
func ModeOf(mode uint32) uint32 {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		if mode&0o100 != 0 {
			return modeExecutable
		}
		return modeFile
	case unix.S_IFLNK:
		return ModeSymlink
	}
	return 0
}
