// Package pattern compiles regular expressions when they are used first. A program that compiles all of its own when it
// starts spends more time on that than most commands take.
package pattern

import (
	"regexp"
	"sync"
)

// Lazy returns the expression, which the first call compiles. One that does not compile panics then.
func Lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
