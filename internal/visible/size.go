package visible

import (
	"fmt"
	"strings"
)

// Size writes a number of bytes as people read it: 512 B, 2 GiB, 66.9 GiB.
func Size(n int64) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	size, at := float64(n), 0
	for size >= 1024 && at < len(units)-1 {
		size, at = size/1024, at+1
	}
	return strings.TrimSuffix(fmt.Sprintf("%.1f", size), ".0") + " " + units[at]
}
