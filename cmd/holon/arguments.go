package main

import (
	"os"
	"strings"
	"unsafe"
)

// secretFlags are the flags whose values are, or may hold, secrets.
var secretFlags = []string{"--env", "--token"}

// takeArguments returns the program's arguments and overwrites the secrets among
// them where the system shows them to every user (/proc/PID/cmdline, ps). There is
// a moment before it when they can be seen, so the documents recommend a variable
// or a file. It must be called once, first, and only with the arguments that the
// system gave: os.Args shares their memory, which holds nothing else of ours.
func takeArguments() []string {
	args := make([]string, len(os.Args))
	for i, shown := range os.Args {
		args[i] = strings.Clone(shown)
	}
	for i := 1; i < len(args); i++ {
		for _, flag := range secretFlags {
			from := len(args[i])
			if strings.HasPrefix(args[i], flag+"=") {
				from = len(flag) + 1
			} else if args[i-1] == flag {
				from = 0
			}
			if flag == "--env" { // the name may be seen
				if _, value, ok := strings.Cut(args[i][from:], "="); ok {
					from = len(args[i]) - len(value)
				} else {
					from = len(args[i])
				}
			}
			overwrite(os.Args[i], from)
		}
	}
	os.Args = args
	return args[1:]
}

// overwrite makes the end of a string that lies in writable memory unreadable.
func overwrite(s string, from int) {
	shown := unsafe.Slice(unsafe.StringData(s), len(s))
	for i := from; i < len(shown); i++ {
		shown[i] = '*'
	}
}
