package config

import (
	"fmt"
	"io/fs"
	"os"
	"strings"

	"holon/internal/unixsocket"
)

// Problem is one wrong setting.
type Problem struct{ Setting, What, Remedy string }

// Problems are all wrong settings of a configuration, reported at once.
type Problems []Problem

// Wrong returns the error of one wrong setting.
func Wrong(setting, what, remedy string) error { return Problems{{setting, what, remedy}} }

// Error lists the problems, one a line.
func (p Problems) Error() string {
	lines := make([]string, len(p))
	for i, x := range p {
		lines[i] = fmt.Sprintf("%s: %s; %s", x.Setting, x.What, x.Remedy)
	}
	return strings.Join(lines, "\n")
}

// err returns p as an error, nil when there are no problems.
func (p Problems) err() error {
	if len(p) == 0 {
		return nil
	}
	return p
}

func (p *Problems) add(setting, what, remedy string) { *p = append(*p, Problem{setting, what, remedy}) }

func socketFits(p *Problems, setting, path string) {
	if len(path) > unixsocket.MaxPath {
		p.add(setting, fmt.Sprintf("the path has %d bytes and a socket's may have %d", len(path), unixsocket.MaxPath),
			"choose a shorter path")
	}
}

// socketOr returns the socket that is configured, else the conventional one if
// the host has put it there, else "".
func socketOr(configured, conventional string) string {
	if configured != "" {
		return configured
	}
	if info, err := os.Stat(conventional); err == nil && info.Mode().Type() == fs.ModeSocket {
		return conventional
	}
	return ""
}
