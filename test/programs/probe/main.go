// Command probe tries, from within a container, operations that must fail there,
// and prints the outcomes: one line per attempt, its name, a tab, and "OK" or the
// name of the error. It is also what the engine suite runs inside an engine, and static, so that an image can hold it
// alone.
package main

import (
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

func main() {
	groups := map[string]func(args []string){
		"privilege": func([]string) { attempt(privileges()) },
		"visible":   func([]string) { attempt(visible()) },
		"network":   func([]string) { attempt(network()) },
		"user":      func([]string) { attempt(userLimits()) },
		"exhaust":   exhaust,
		"sockets":   func([]string) { attempt(sockets()) },
		"fork":      forkBomb, "memory": memory, "descriptors": descriptors, "inodes": inodes,
		"fill": fill, "sparse": sparse, "names": names, "deep": deep, "swap": swap, "stubborn": stubborn,
	}
	maps.Copy(groups, engineCommands())
	if len(os.Args) < 2 || groups[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: probe GROUP [ARGUMENT...]")
		os.Exit(2)
	}
	groups[os.Args[1]](os.Args[2:])
}

func attempt(attacks map[string]func() error) {
	for _, name := range slices.Sorted(maps.Keys(attacks)) {
		say(name, attacks[name]())
	}
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
}

func say(name string, err error) { fmt.Printf("%s\t%s\n", name, outcome(err)) }

// outcome names an error as the kernel does.
func outcome(err error) string {
	var no syscall.Errno
	switch {
	case err == nil:
		return "OK"
	case errors.As(err, &no):
		return unix.ErrnoName(no)
	}
	var dns *net.DNSError
	if errors.As(err, &dns) {
		return "DNS"
	}
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return ' '
		}
		return r
	}, err.Error())
}
