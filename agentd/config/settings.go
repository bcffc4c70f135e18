package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
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
