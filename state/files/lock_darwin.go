package files

import "os"

func takeLock(f *os.File) error { return flock(f) }

func isLocked(f *os.File) (bool, error) { return flocked(f) }
