package files

import (
	"os"

	"holon/internal/platform"
)

func takeLock(*os.File) error { return platform.NeedsLinux{What: "locking a run's lease"} }

func isLocked(*os.File) (bool, error) {
	return false, platform.NeedsLinux{What: "asking for the lock of a run's lease"}
}
