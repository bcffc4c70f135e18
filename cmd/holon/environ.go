package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"

	"holon/internal/visible"
	"holon/runner/settings"
)

// maxEnvFile bounds a file of variables; an engine takes much less.
const maxEnvFile = 1 << 20

// environ returns the variables of --env-file and then of --env as K=V, of those
// with the same name the last: a bare name takes the caller's value.
func environ(files, list []string) (out []string, err error) {
	values := map[string]string{}
	for _, path := range files {
		if err := envFile(path, values); err != nil {
			return nil, usage("--env-file", err.Error(), "name a file with lines NAME=VALUE, or NAME for your value")
		}
	}
	for _, kv := range list {
		name, value, given := strings.Cut(kv, "=")
		if !validEnvName(name) {
			return nil, usage("--env", fmt.Sprintf(
				"%q cannot be the name of a variable for commands", visible.OneLine(name, 80)),
				"write NAME=VALUE, HOLON_ names are reserved")
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				return nil, usage("--env", visible.OneLine(kv, 80)+" has no value and is not set here",
					"write "+visible.OneLine(kv, 80)+"=VALUE")
			}
		}
		values[name] = value
	}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		out = append(out, name+"="+values[name])
	}
	return out, nil
}

func validEnvName(name string) bool {
	return name != "" && !strings.ContainsAny(name, " \t\n,") && !strings.HasPrefix(name, "HOLON_")
}

// envFile reads variables in the format of Docker: a line is NAME=VALUE, taken as
// it is, a bare NAME, a comment after #, or empty. Errors name lines and show
// nothing of them.
func envFile(path string, values map[string]string) error {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe without a writer must not block
	if err != nil {
		return err
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.Mode().IsRegular() {
		return errors.Join(fmt.Errorf("%s is not a regular file", visible.Name(visible.Clip(path, 200))), err)
	}
	data, err := io.ReadAll(io.LimitReader(file, maxEnvFile+1))
	if err != nil {
		return err
	}
	if len(data) > maxEnvFile {
		return errors.New("it is larger than 1 MiB")
	}
	n := 0
	for line := range strings.Lines(strings.TrimPrefix(string(data), "\ufeff")) {
		n++
		line = strings.TrimLeft(strings.TrimRight(line, "\r\n"), " \t")
		if line == "" || line[0] == '#' {
			continue
		}
		name, value, given := strings.Cut(line, "=")
		if !validEnvName(name) || strings.ContainsRune(line, 0) {
			return fmt.Errorf("line %d has no name of a variable for commands", n)
		}
		if !given {
			if value, given = os.LookupEnv(name); !given {
				return fmt.Errorf("line %d has no value, and its variable is not set here", n)
			}
		}
		values[name] = value
	}
	return nil
}

// maxMCPConfig bounds what is read of a list of MCP servers to see whether it can be read.
const maxMCPConfig = 1 << 20

// checkMCPConfig refuses a path that is not a file, and a file that is neither YAML nor JSON, before anything is made.
// agentd checks what the file says.
func checkMCPConfig(path string) error {
	if path == "" {
		return nil
	}
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() {
		return usage("--mcp-config", fmt.Sprintf("%q is not a file", visible.OneLine(path, 200)),
			"name one with the MCP servers of the run")
	}
	if info.Size() > maxMCPConfig {
		return nil
	}
	data, err := os.ReadFile(path)
	if err == nil {
		err = settings.CheckSyntax(data)
	}
	if err != nil {
		return usage("--mcp-config", visible.Name(path)+" cannot be read: "+err.Error(),
			"write servers: with a name and command:, url: or socket: for each (docs/reference/mcp.md)")
	}
	return nil
}
