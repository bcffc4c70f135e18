package unixsocket

import "context"

// MaxPath is the longest path of a socket in bytes: sun_path of macOS, less its NUL.
const MaxPath = 103

// Listen listens on a Unix socket at path, in a directory that exists. A socket that a killed server left there is
// replaced. When it can't be, the error is ErrOccupied.
func Listen(ctx context.Context, path string) (*Listener, error) { return listenPrivately(ctx, path) }
