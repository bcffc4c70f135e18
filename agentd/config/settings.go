package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"

	"holon/internal/unixsocket"
)

// setting is a field of a group that a variable sets, and a flag if the variable is ours.
type setting struct {
	variable string
	flag     string // "" for none
	value    reflect.Value
	tag      reflect.StructTag
}

// settings returns all settings, in the order of Config.
func (c *Config) settings() (list []setting) {
	groups := reflect.ValueOf(c).Elem()
	for i := range groups.NumField() {
		group := groups.Field(i)
		for j := range group.NumField() {
			tag := group.Type().Field(j).Tag
			s := setting{variable: tag.Get("env"), value: group.Field(j), tag: tag}
			if name, ours := strings.CutPrefix(s.variable, "HOLON_"); ours {
				s.flag = strings.ToLower(strings.ReplaceAll(name, "_", "-"))
			}
			if s.variable != "" {
				list = append(list, s)
			}
		}
	}
	return list
}

// LoadEnv overrides c with what the environment sets. All malformed variables
// are reported together.
func (c *Config) LoadEnv() error {
	var p Problems
	groups := reflect.ValueOf(c).Elem()
	for i := range groups.NumField() {
		group := groups.Field(i).Addr().Interface()
		err := env.ParseWithOptions(group, env.Options{DefaultValueTagName: "-"}) // c has its defaults
		all, ok := errors.AsType[env.AggregateError](err)
		if err != nil && !ok {
			return err
		}
		for _, e := range all.Errors {
			wrong, ok := errors.AsType[env.ParseError](e)
			if !ok {
				p.add("environment", e.Error(), "correct or unset the variable")
				continue
			}
			field, _ := groups.Field(i).Type().FieldByName(wrong.Name)
			p.add(field.Tag.Get("env"), "cannot be read as "+kind(wrong.Type), "correct or unset the variable")
		}
	}
	return p.err()
}

// kind names the values of a type as a person does.
func kind(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[time.Duration]():
		return "a duration such as 90s"
	case t.Kind() == reflect.Bool:
		return "true or false"
	}
	return "a whole number" // all others that can be wrong
}

// Bind registers the flags of c on fs, with c's present values as defaults.
func (c *Config) Bind(fs *flag.FlagSet) {
	for _, s := range c.settings() {
		usage := usages[s.flag]
		if s.flag == "" {
			continue
		}
		switch v := s.value.Addr().Interface().(type) {
		case *string:
			fs.StringVar(v, s.flag, *v, usage)
		case *bool:
			fs.BoolVar(v, s.flag, *v, usage)
		case *int:
			fs.IntVar(v, s.flag, *v, usage)
		case *int64:
			fs.Int64Var(v, s.flag, *v, usage)
		case *time.Duration:
			fs.DurationVar(v, s.flag, *v, usage)
		}
	}
}

// ParseFlags reads args into the flags of fs, in which nothing but flags is
// expected. A mistake is returned as Problems. Help that was asked for is written to
// help, and the error is flag.ErrHelp.
func ParseFlags(fs *flag.FlagSet, args []string, help io.Writer) error {
	fs.SetOutput(io.Discard)
	remedy := "see " + fs.Name() + " --help"
	err := fs.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		fmt.Fprintf(help, "Usage of %s:\n", fs.Name())
		fs.SetOutput(help)
		fs.PrintDefaults()
		return err
	case err != nil:
		return Wrong("command line", err.Error(), remedy)
	case fs.NArg() > 0:
		return Wrong("command line", fmt.Sprintf("unexpected argument %q", fs.Arg(0)), remedy)
	}
	return nil
}

// inBounds reports the settings that are out of the bounds of their tags.
func (c *Config) inBounds(p *Problems) {
	for _, s := range c.settings() {
		low, err := strconv.ParseInt(s.tag.Get("min"), 10, 64)
		if err != nil { // it has no bounds
			continue
		}
		high, err := strconv.ParseInt(s.tag.Get("max"), 10, 64)
		bounded := err == nil
		what := ""
		switch v := s.value.Int(); {
		case bounded && (v < low || v > high):
			what = fmt.Sprintf("%v is not within %d and %d", s.value, low, high)
		case v < low && low == 0:
			what = fmt.Sprintf("%v is negative", s.value)
		case v < low:
			what = fmt.Sprintf("%v is not positive", s.value)
		default:
			continue
		}
		p.add("--"+s.flag, what, s.tag.Get("envDefault")+" is the default")
	}
}

// Origins are the flags, as --name, whose values came from variables, with the names of these.
type Origins map[string]string

// Origins returns which settings came from the environment: those whose variable is set and whose flag fs, which has
// read its arguments, was not given.
func (c *Config) Origins(fs *flag.FlagSet) Origins {
	o := Origins{}
	for _, s := range c.settings() {
		if s.flag != "" && os.Getenv(s.variable) != "" {
			o["--"+s.flag] = s.variable
		}
	}
	fs.Visit(func(f *flag.Flag) { delete(o, "--"+f.Name) })
	return o
}

// Name makes the problems of err name the variable where a value came from one, and returns err. An error that
// was made from err before has the text of before.
func (o Origins) Name(err error) error {
	problems, _ := errors.AsType[Problems](err)
	for i, p := range problems {
		if variable := o[p.Setting]; variable != "" {
			problems[i].Setting = variable
		}
	}
	return err
}

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

// usages are the help texts of the flags.
var usages = map[string]string{
	"socket":     "Unix `path` to serve on; empty for none",
	"listen":     "also serve on this TCP `address`; loopback only unless --token-file is given",
	"token-file": "`file` whose content TCP clients must send as a bearer token",
	"input-dir":  "`directory` under which input directories of turns lie",
	"output-dir": "`directory` under which turns write their records",
	"shown-output-dir": "`path` that responses give in the place of --output-dir, for clients that " +
		"need not know it",
	"state-dir":       "`directory` for stored responses",
	"workspace-dir":   "`directory` that is, or holds, the working trees",
	"skills-dir":      "`directory` of skills",
	"anchors-dir":     "`directory` in which a request may name one with the instructions of a workspace",
	"agent-home":      "`directory` with the agent's AGENTS.md; empty for none",
	"agent-role":      "default, named or child: only the default agent sees the skills in the user's home",
	"model":           "default model, as `provider/model`",
	"model-fallbacks": "comma-separated `models` to try when the model fails before it says anything",
	"model-socket": "Unix `path` of the model gateway (default " + defaultModelSocket +
		" where that exists)",
	"providers": "comma-separated providers in addition to the built-in ones, as `name` or " +
		"name=contract; behind a gateway: all there are",
	"model-idle-timeout": "how long a provider may be silent",
	"model-timeout":      "how long one attempt at a model may take; 0 for no bound",
	"retry-for": "how long a turn waits for models that are out of order or limit the rate, beyond " +
		"two quick retries; 0 for not at all",
	"model-windows": "comma-separated windows of models in tokens, as `PREFIX=CONTEXT` or " +
		"PREFIX=CONTEXT/OUTPUT, where what is known of them is wrong; 0 for no bound",
	"freeform-tools": "let models of openai/ that may know it write patches as plain text, by a grammar, " +
		"instead of as JSON",
	"concurrency":  "turns that may run at once, each in a session of its own",
	"queue-limit":  "turns that may wait before new ones are refused",
	"max-rounds":   "model rounds after which a turn ends as incomplete",
	"turn-timeout": "wall time after which a turn ends as incomplete",
	"max-output-bytes": "`bytes` in a turn's output directory, its streams included, beyond which it ends as " +
		"incomplete; 0 for no bound",
	"grace":           "time that running turns get to end after SIGTERM",
	"min-free-bytes":  "free disk space below which new turns are refused",
	"isolation":       "where turns work whose request does not say it: none, copy or worktree",
	"show-tool-calls": "show calls of the container's tools to every client, as include holon:tool_calls does",
	"retain-age":      "time after which stored responses that nothing continues are removed; 0 for never",
	"retain-count": "stored responses beyond which the least recent conversations are removed; 0 for no " +
		"bound",
	"retain-bytes": "size of the stored responses beyond which the least recent conversations are " +
		"removed; 0 for no bound",
	"tools":                      "comma-separated `names` of the container tools that models get; empty for all",
	"default-tool-output-tokens": "how much of a tool's output a model is shown when it does not say, in `tokens`",
	"max-tool-output-tokens":     "how much of a tool's output a model is shown at most, in `tokens`",
	"mcp-config":                 "`file` that names the MCP servers whose tools models get (docs/reference/mcp.md)",
	"host-socket": "Unix `path` of the host's MCP server (default " + defaultHostSocket +
		" where that exists)",
	"pass-env": "comma-separated `names` of variables that commands get although they are not on the " +
		"list of harmless ones",
	"secret-env": "comma-separated `names` of variables whose values are taken out of all that is " +
		"shown and kept, in addition to those whose names say so",
	"egress-socket": "Unix `path` of the host's HTTP proxy, which commands are given (default " +
		defaultEgressSocket + " where that exists)",
	"services": "comma-separated `NAME:PORT` of services that share the container's network, which agentd waits for; " +
		"NAME alone: it does not; /PATH of a socket: likewise",
	"task-timeout": "time after which a command that became a task is ended",
	"task-notices": "tell the model which tasks have ended, with its next round; a host that follows " +
		"tasks tells it itself",
	"stream-log-bytes": "`bytes` of each output stream of a command that are kept in a file",
	"turn-log-bytes":   "`bytes` of output that the commands of one turn may leave in files",
	"log-bytes": "`bytes` of output that the commands of all turns may leave in files under " +
		"--output-dir",
	"command-user": "`UID[:GID]` of commands, which then cannot reach what is agentd's; agentd has to " +
		"start as root with the capabilities SETUID, SETGID, KILL and CHOWN. Empty: the user " +
		"of agentd",
	"server-user": "`UID[:GID]` that agentd becomes when there is a --command-user",
}
