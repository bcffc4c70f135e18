package main

import (
	"os"
	"path/filepath"
	"syscall"
)

// keep makes the files that agentd makes for a turn besides its directory and its events: the stored response, which
// gets its place by being renamed, the facts, and the record, which is renamed too; and flushes once more.
func keep(dir string, log *os.File, data []byte) error {
	stored := filepath.Join(filepath.Dir(dir), "open-"+filepath.Base(dir))
	record := filepath.Join(dir, ".tmp")
	for _, path := range []string{stored, filepath.Join(dir, "runtime.ndjson"), record} {
		if err := os.WriteFile(path, data, 0o600); err != nil {
			return err
		}
	}
	if err := os.Rename(record, filepath.Join(dir, "turn.json")); err != nil {
		return err
	}
	if _, err := log.Write(data); err != nil {
		return err
	}
	if err := syscall.Fdatasync(int(log.Fd())); err != nil {
		return err
	}
	return os.Rename(stored, filepath.Join(filepath.Dir(dir), "done-"+filepath.Base(dir)))
}
