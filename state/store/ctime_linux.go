package store

import "syscall"

// changeTime is when a file or its metadata changed, in nanoseconds since 1970.
func changeTime(st *syscall.Stat_t) int64 { return st.Ctim.Nano() }
