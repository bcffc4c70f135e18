package config

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"reflect"
	"strings"
	"time"
)

// ParseFlags reads args into the flags of fs, in which nothing but flags is
// expected. It reads on after a mistake and returns all of them as Problems. A
// flag whose value is wrong keeps the value that it had, so that later checks say
// nothing about it. Help that was asked for is written to help, and the error is
// flag.ErrHelp.
func ParseFlags(fs *flag.FlagSet, args []string, help io.Writer) error {
	var p Problems
	remedy := "see " + fs.Name() + " --help"
	fs.SetOutput(io.Discard) // the mistakes are told at the end
	fs.VisitAll(func(f *flag.Flag) { f.Value = &checkedValue{f.Value, f.Name, remedy, &p} })
	asked := readFlags(fs, args, remedy, &p)
	fs.VisitAll(func(f *flag.Flag) { f.Value = f.Value.(*checkedValue).Value })
	if !asked || len(p) > 0 {
		return p.err()
	}
	fmt.Fprintf(help, "Usage of %s:\n", fs.Name())
	fs.SetOutput(help)
	fs.PrintDefaults()
	return flag.ErrHelp
}

// readFlags reads args to their end and reports whether they ask for help.
func readFlags(fs *flag.FlagSet, args []string, remedy string, p *Problems) (help bool) {
	for {
		err := fs.Parse(args)
		rest := fs.Args()
		if errors.Is(err, flag.ErrHelp) {
			return true
		}
		if err == nil {
			if len(rest) > 0 {
				p.add("command line", fmt.Sprintf("unexpected argument %q", rest[0]), remedy)
			}
			return false
		}
		if len(rest) > 0 && strings.HasPrefix(err.Error(), "bad flag syntax") { // it is still in rest
			p.add("command line", fmt.Sprintf("%q is not a flag", rest[0]), remedy)
			args = rest[1:]
			continue
		}
		wrong := args[len(args)-len(rest)-1]
		name, _, hasValue := strings.Cut(strings.TrimLeft(wrong, "-"), "=")
		if fs.Lookup(name) != nil {
			p.add("--"+name, "needs a value", remedy)
		} else {
			p.add("--"+name, "there is no such flag", remedy)
		}
		if !hasValue && len(rest) > 0 && !strings.HasPrefix(rest[0], "-") {
			rest = rest[1:] // the value of the unknown flag
		}
		args = rest
	}
}

// checkedValue is a flag's value that reports a mistake as a problem and stays as
// it was.
type checkedValue struct {
	flag.Value
	name, remedy string
	problems     *Problems
}

// Set implements flag.Value. It never fails, so that parsing goes on.
func (v *checkedValue) Set(text string) error {
	old := v.String()
	if err := v.Value.Set(text); err == nil {
		return nil
	}
	want := "what is needed"
	if known, ok := v.Value.(flag.Getter); ok {
		want = kind(reflect.TypeOf(known.Get()))
	}
	v.problems.add("--"+v.name, fmt.Sprintf("%q cannot be read as %s", text, want), v.remedy)
	return v.Value.Set(old) // some kinds of value become zero when they cannot be read
}

// IsBoolFlag tells package flag whether the flag needs no value.
func (v *checkedValue) IsBoolFlag() bool {
	b, ok := v.Value.(interface{ IsBoolFlag() bool })
	return ok && b.IsBoolFlag()
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
