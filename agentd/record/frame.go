package record

import (
	"encoding/binary"
	"errors"
	"hash/crc32"
	"strings"
)

// A segment of the journal begins with segmentMagic, its number and the run of
// the kernel that it belongs to, padded with NULs; frames follow, each a length and a checksum of 4 bytes and then
//
//	kind (1 byte) · offset (8) · length of the path (2) · path · data
//
// all little-endian. The checksum is that of the segment's number and the rest
// of the frame, so that old content of a recycled block is never taken for a frame.
const (
	segmentMagic = "holonj01"
	segmentBoot  = 40
	segmentHead  = len(segmentMagic) + 8 + segmentBoot
	frameHead    = 8
	frameFixed   = 1 + 8 + 2
	maxFrame     = 1 << 20
)

// frame is one write, as the journal repeats it.
type frame struct {
	kind   frameKind
	path   string // absolute
	offset int64
	data   []byte
}

type frameKind byte

const (
	frameWrite   frameKind = 'w' // data at an offset of the file
	frameReplace frameKind = 'r' // data is the whole file
	frameRelease frameKind = 'x' // frames before this one do not count
)

func appendSegmentHeader(dst []byte, number uint64, boot string) []byte {
	dst = binary.LittleEndian.AppendUint64(append(dst, segmentMagic...), number)
	var padded [segmentBoot]byte
	copy(padded[:], boot)
	return append(dst, padded[:]...)
}

func (f frame) append(dst []byte, number uint64) []byte {
	start := len(dst)
	dst = binary.LittleEndian.AppendUint32(dst, uint32(frameFixed+len(f.path)+len(f.data)))
	dst = append(dst, 0, 0, 0, 0, byte(f.kind))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(f.offset))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(f.path)))
	dst = append(dst, f.path...)
	dst = append(dst, f.data...)
	binary.LittleEndian.PutUint32(dst[start+4:], checksum(number, dst[start+frameHead:]))
	return dst
}

func checksum(number uint64, body []byte) uint32 {
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], number)
	table := crc32.MakeTable(crc32.Castagnoli) // made by the first call, after the server is up
	return crc32.Update(crc32.Checksum(n[:], table), table, body)
}

// errNoSegment marks a file that is not a segment of a journal.
var errNoSegment = errors.New("not a segment of a journal")

// decodeSegment returns the frames of a segment up to the first that is not
// whole: what follows was never synced. Paths and data are parts of b.
func decodeSegment(b []byte) (number uint64, boot string, frames []frame, err error) {
	if len(b) < segmentHead || string(b[:len(segmentMagic)]) != segmentMagic {
		return 0, "", nil, errNoSegment
	}
	number = binary.LittleEndian.Uint64(b[len(segmentMagic):])
	boot = strings.TrimRight(string(b[segmentHead-segmentBoot:segmentHead]), "\x00")
	b = b[segmentHead:]
	for len(b) >= frameHead+frameFixed {
		n := binary.LittleEndian.Uint32(b)
		if n < frameFixed || n > maxFrame || int(n) > len(b)-frameHead {
			break
		}
		body := b[frameHead : frameHead+int(n)]
		path := int(binary.LittleEndian.Uint16(body[9:]))
		if checksum(number, body) != binary.LittleEndian.Uint32(b[4:]) || frameFixed+path > len(body) {
			break
		}
		frames = append(frames, frame{
			kind: frameKind(body[0]), offset: int64(binary.LittleEndian.Uint64(body[1:])),
			path: string(body[frameFixed : frameFixed+path]), data: body[frameFixed+path:],
		})
		b = b[frameHead+int(n):]
	}
	return number, boot, frames, nil
}
