package config

import (
	"errors"
	"flag"
	"os"
	"reflect"
)

// Origins are the flags, as --name, whose values came from variables, with the names of these.
type Origins map[string]string

// Origins returns which settings came from the environment: those whose variable is set and whose flag fs was not
// given. c is bound to fs, and fs has read its arguments.
func (c *Config) Origins(fs *flag.FlagSet) Origins {
	variables := map[uintptr]string{} // by the address of what is set
	for _, g := range c.groups() {
		group := reflect.ValueOf(g).Elem()
		for i := range group.NumField() {
			variable := group.Type().Field(i).Tag.Get("env")
			if variable != "" && os.Getenv(variable) != "" {
				variables[group.Field(i).UnsafeAddr()] = variable
			}
		}
	}
	o := Origins{}
	fs.VisitAll(func(f *flag.Flag) {
		if value := reflect.ValueOf(f.Value); value.Kind() == reflect.Pointer && variables[value.Pointer()] != "" {
			o["--"+f.Name] = variables[value.Pointer()]
		}
	})
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
