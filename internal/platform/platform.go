// Package platform names what this system lacks. Runs need Linux; on other systems holon is built too, and what it
// cannot do there fails with NeedsLinux, whose remedy is the caller's to know.
package platform

// NeedsLinux is the error of What, which only Linux can do.
type NeedsLinux struct{ What string }

// Error implements error.
func (e NeedsLinux) Error() string { return e.What + " needs Linux" }
