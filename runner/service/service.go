// Package service reads what a run has next to its agent: a database, a queue.
//
//	postgres=postgres:16,POSTGRES_PASSWORD=test,/var/cache/x
//	name     image       variables             directories that it may write
//
// A value of the list is written as in CSV: "A=1,2" has a comma in it. What is parsed can be asked of any engine; that
// the image is there, and starts, is not promised.
package service

import (
	"encoding/csv"
	"fmt"
	"path"
	"strings"
	"unicode"

	"holon/internal/pattern"
	"holon/internal/visible"
	"holon/state"
)

// CodeInvalid is the code of a text that describes no service.
const CodeInvalid state.Code = "invalid_service"

// Max bounds how many services a run has.
const Max = 8

// Service is one of them.
type Service struct {
	Name  string   `json:"name"` // by which the agent reaches it
	Image string   `json:"image"`
	Env   []string `json:"env"`  // NAME=VALUE
	Dirs  []string `json:"dirs"` // absolute, in memory, in addition to the volumes of the image
}

var (
	validName = pattern.Lazy(`^[a-z]([a-z0-9-]{0,61}[a-z0-9])?$`)
	validEnv  = pattern.Lazy(`^[A-Za-z_][A-Za-z0-9_]*=[^\x00]*$`)
)

// ParseAll reads a list of services, whose names differ. Errors are *state.Error with CodeInvalid and the param
// --service.
func ParseAll(texts []string) (list []Service, err error) {
	seen := map[string]bool{}
	for _, text := range texts {
		s, err := parse(text)
		if err != nil {
			return nil, err
		}
		if seen[s.Name] {
			return nil, invalid("give each a name of its own", "two services have the name %s", s.Name)
		}
		seen[s.Name] = true
		list = append(list, s)
	}
	if len(list) > Max {
		return nil, invalid("leave some out", "%d are more than %d", len(list), Max)
	}
	return list, nil
}

func parse(text string) (s Service, err error) {
	fields, err := csv.NewReader(strings.NewReader(text)).Read()
	if err != nil || strings.ContainsFunc(text, unicode.IsControl) {
		return s, invalid("write NAME=IMAGE,VARIABLE=VALUE on one line", "%s cannot be read", visible.Quoted(text))
	}
	name, image, _ := strings.Cut(fields[0], "=")
	switch s = (Service{Name: name, Image: image}); {
	case !validName().MatchString(name) || name == "localhost":
		return s, invalid("begin with a name of lower-case letters, digits and '-', and '='", "%s is not NAME=IMAGE",
			visible.Quoted(visible.Clip(fields[0], 100)))
	case image == "" || strings.ContainsAny(image, " \t") || strings.HasPrefix(image, "-"):
		return s, invalid("name an image, such as "+name+"=postgres:16", "%s has no image", name)
	}
	for _, field := range fields[1:] {
		switch variable, _, _ := strings.Cut(field, "="); {
		case strings.HasPrefix(field, "/"):
			if path.Clean(field) != field || field == "/" {
				return s, invalid("write an absolute path without '..' or a '/' at its end", "%s is not a directory for %s",
					visible.Quoted(visible.Clip(field, 100)), name)
			}
			s.Dirs = append(s.Dirs, field)
		case validEnv().MatchString(field):
			s.Env = append(s.Env, field)
		default: // a value may be a password
			return s, invalid("write VARIABLE=VALUE, or the absolute path of a directory", "%s is not a variable of %s",
				visible.Quoted(visible.Clip(variable, 100)), name)
		}
	}
	return s, nil
}

func invalid(hint, format string, args ...any) error {
	return &state.Error{Code: CodeInvalid, Param: "--service", Message: fmt.Sprintf(format, args...), Hint: hint}
}

// Variables are the names of what it gets.
func (s Service) Variables() []string {
	names := make([]string, len(s.Env))
	for i, pair := range s.Env {
		names[i], _, _ = strings.Cut(pair, "=")
	}
	return names
}
