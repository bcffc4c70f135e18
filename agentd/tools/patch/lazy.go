package patch

import (
	"regexp"
	"sync"
)

// lazy returns an expression that is compiled when it is first used: a program
// that starts need not wait for it.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
