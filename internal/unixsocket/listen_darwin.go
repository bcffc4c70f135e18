package unixsocket

import (
	"context"

	"holon/internal/platform"
)

// MaxPath is the longest path of a socket in bytes: sun_path of macOS, less its NUL.
const MaxPath = 103

// Listen is for Linux alone: macOS cannot make a socket that no other user may open from its first moment, in a
// directory that is held open.
func Listen(context.Context, string) (*Listener, error) {
	return nil, platform.NeedsLinux{What: "listening on a Unix socket"}
}
