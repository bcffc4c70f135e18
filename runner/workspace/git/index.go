package git

import (
	"bytes"
	"encoding/binary"
	"errors"
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
	indexSignature  = "DIRC"
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
	data = append(data, indexSignature...)
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

var errBadIndex = errors.New("malformed index")

// DecodeIndex reads what encodeIndex wrote and returns what follows it. It
// accepts no other index: no extensions, no flags, no unmerged entries.
func DecodeIndex(format ObjectFormat, data []byte) (entries []Entry, rest []byte, err error) {
	if len(data) < indexHeaderSize || string(data[:4]) != indexSignature || binary.BigEndian.Uint32(data[4:]) != 2 {
		return nil, nil, errBadIndex
	}
	count := int(binary.BigEndian.Uint32(data[8:]))
	fixed := indexStatSize + format.Size() + 2
	if count > len(data)/fixed {
		return nil, nil, errBadIndex
	}
	text := string(data) // the one copy that every path and id is cut from
	entries = make([]Entry, 0, count)
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
		e := Entry{Path: text[name : name+length], Oid: text[at+indexStatSize : name-2]}
		e.Stat, e.Mode = decodeStat(data[at:])
		if n := len(entries); n > 0 && entries[n-1].Path >= e.Path {
			return nil, nil, errBadIndex
		}
		entries = append(entries, e)
		at += (fixed+length)/8*8 + 8
	}
	if at+format.Size() > len(data) {
		return nil, nil, errBadIndex
	}
	hash := format.NewHash()
	hash.Write(data[:at])
	if !bytes.Equal(hash.Sum(nil), data[at:at+format.Size()]) {
		return nil, nil, errBadIndex
	}
	return entries, data[at+format.Size():], nil
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
