package folder

import "syscall"

// ChangeTime is when a file, its content or what describes it, was changed last, in nanoseconds.
func ChangeTime(st *syscall.Stat_t) int64 { return st.Ctimespec.Nano() }
