package git

import "holon/internal/platform"

// limit fails: without bounds git reads no repository that may be hostile.
func (g Runner) limit(int) error {
	return platform.NeedsLinux{What: "bounding the processor time of git"}
}
