package patch

import (
	"regexp"
	"sync"
)

// lazy returns an expression that is compiled on first use, which keeps the start of the program fast.
func lazy(expr string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expr) })
}
