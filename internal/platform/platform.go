// Package platform names what this system lacks. holon is built for macOS too, and what it cannot do there
// fails with NeedsLinux, whose remedy is the caller's to know.
package platform

// NeedsLinux is the error of What, which only Linux can do.
type NeedsLinux struct{ What string }

// Error implements error.
func (e NeedsLinux) Error() string { return e.What + " needs Linux" }
