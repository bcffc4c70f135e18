package transfer

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Tars that this package reads have of a file with holes only its data, one extent after the other. A record says where
// they are: the size of the file, and offset and length of each, in bytes.
const holesRecord = "HOLON.extents"

// Bounds of files whose holes are left out: how many extents a record has, and how many bytes of holes are worth it.
const (
	maxExtents = 1000
	leastHole  = 1 << 20
)

type extent struct{ at, size int64 }

type extents []extent

// leaveOutHoles returns what data a file has, and says so in its header.
func (e *entry) leaveOutHoles() extents {
	size, data := e.header.Size, e.extents()
	if data == nil {
		return extents{{0, size}}
	}
	e.header.Size, e.header.PAXRecords = data.sum(), map[string]string{holesRecord: data.record(size)}
	return data
}

// extents returns what data a file with holes has, nil for any other.
func (e *entry) extents() extents {
	if e.content == nil {
		return nil
	}
	data, err := extentsOf(e.content, e.header.Size)
	if err != nil || e.header.Size-data.sum() < leastHole {
		return nil
	}
	return append(extents{}, data...) // a file that is one hole has none, and they are not nil
}

func (e extents) sum() (bytes int64) {
	for _, d := range e {
		bytes += d.size
	}
	return bytes
}

// extentsOf finds the data of a file. After so many extents the rest is one.
func extentsOf(f *os.File, size int64) (data extents, err error) {
	for at := int64(0); at < size; {
		at, err = f.Seek(at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole follows
			return data, nil
		}
		end := size
		if err == nil && len(data) < maxExtents-1 {
			end, err = f.Seek(at, unix.SEEK_HOLE)
		}
		if err != nil {
			return nil, err
		}
		if end = min(end, size); at < end {
			data = append(data, extent{at, end - at})
		}
		at = max(at, end)
	}
	return data, nil
}

func (e extents) record(size int64) string {
	words := []string{strconv.FormatInt(size, 10)}
	for _, d := range e {
		words = append(words, strconv.FormatInt(d.at, 10), strconv.FormatInt(d.size, 10))
	}
	return strings.Join(words, " ")
}

// readExtents reads the record of a header whose file has so many bytes of data.
func readExtents(record string, sum int64) (data extents, size int64, err error) {
	words := strings.Fields(record)
	numbers := make([]int64, len(words))
	for i, word := range words {
		if numbers[i], err = strconv.ParseInt(word, 10, 64); err != nil || numbers[i] < 0 {
			return nil, 0, &BrokenError{fmt.Errorf("%.40q is not a size", word)}
		}
	}
	if len(numbers)%2 == 0 || len(numbers) > 2*maxExtents+1 {
		return nil, 0, &BrokenError{errors.New("a file's extents are no pairs, or too many")}
	}
	size = numbers[0]
	at := int64(0)
	for i := 1; i < len(numbers); i += 2 {
		d := extent{numbers[i], numbers[i+1]}
		if d.at < at || d.size > size-d.at || d.size > sum {
			return nil, 0, &BrokenError{errors.New("a file's extents are not in it, or not in order")}
		}
		at, sum = d.at+d.size, sum-d.size
		data = append(data, d)
	}
	if sum != 0 {
		return nil, 0, &BrokenError{errors.New("a file's extents are not its data")}
	}
	return data, size, nil
}

// copyExtents writes the data of a header with holesRecord to a new file.
func copyExtents(out *os.File, content io.Reader, h *tar.Header) error {
	data, size, err := readExtents(h.PAXRecords[holesRecord], h.Size)
	if err != nil {
		return err
	}
	for _, d := range data {
		if _, err := out.Seek(d.at, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, content, d.size); err != nil {
			return err
		}
	}
	return out.Truncate(size)
}
