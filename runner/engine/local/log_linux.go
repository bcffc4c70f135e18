package local

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"holon/runner/engine"
)

// The log of a program is two files, of which the older one is dropped when
// the newer one is full: at least logHalf of the newest output is kept and
// never more than twice that.
const (
	logFile = "log"
	oldLog  = "log.1"
	logHalf = 5 << 20
)

// boundedLog is the writing side. os/exec gives it to one goroutine.
type boundedLog struct {
	dir  string
	file *os.File
	size int64
}

func openLog(dir string) (*boundedLog, error) {
	l := &boundedLog{dir: dir}
	return l, l.open()
}

func (l *boundedLog) open() (err error) {
	l.file, err = os.OpenFile(filepath.Join(l.dir, logFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	l.size = 0
	return err
}

// Write keeps the program running when the disk is full or the directory is
// gone: its output is then lost, but it is never blocked or killed by that.
func (l *boundedLog) Write(p []byte) (int, error) {
	if l.size+int64(len(p)) > logHalf && l.size > 0 {
		l.rotate()
	}
	if l.file != nil {
		n, _ := l.file.Write(p[max(0, len(p)-logHalf):])
		l.size += int64(n)
	}
	return len(p), nil
}

func (l *boundedLog) rotate() {
	_ = l.Close()
	_ = os.Rename(filepath.Join(l.dir, logFile), filepath.Join(l.dir, oldLog))
	if l.open() != nil {
		l.file = nil
	}
}

func (l *boundedLog) Close() error {
	if l.file == nil {
		return nil
	}
	return l.file.Close()
}

// readLogs returns the last limit bytes of both files.
func readLogs(dir string, limit int64) ([]byte, error) {
	tail := engine.NewTail(limit)
	for _, file := range []string{oldLog, logFile} {
		f, err := os.Open(filepath.Join(dir, file))
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was written, or not so much
		}
		if err != nil {
			return nil, fmt.Errorf("read logs: %w", err)
		}
		_, err = io.Copy(tail, io.LimitReader(f, 2*logHalf))
		if closeErr := f.Close(); err == nil {
			err = closeErr
		}
		if err != nil {
			return nil, fmt.Errorf("read logs: %w", err)
		}
	}
	return tail.Bytes(), nil
}
