package git

import (
	"syscall"

	"holon/internal/platform"
)

// limit fails: without bounds git reads no repository that may be hostile.
func (g Runner) limit(int) error {
	return platform.NeedsLinux{What: "bounding the processor time of git"}
}

func endWithParent(*syscall.SysProcAttr) {} // no git starts there
