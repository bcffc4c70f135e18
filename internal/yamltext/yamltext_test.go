package yamltext

import (
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

func TestExplain(t *testing.T) {
	type server struct {
		Command []string          `yaml:"command"`
		Name    string            `yaml:"name"`
		Env     map[string]string `yaml:"env"`
		Tries   int               `yaml:"tries"`
		Needed  bool              `yaml:"needed"`
	}
	for text, want := range map[string]string{
		"a: 3":                        `line 1: "3" is a number, where a list of keys is wanted`,
		"a:\n  command: x":            `line 2: "x" is a text, where a list is wanted`,
		"a:\n  name: [x]":             `line 2: this is a list, where a text is wanted`,
		"a:\n  env: [x]":              `line 2: this is a list, where a list of keys is wanted`,
		"a:\n  tries: many":           `line 2: "many" is a text, where a number is wanted`,
		"a:\n  needed: {x: y}":        `line 2: this is a list of keys, where true or false is wanted`,
		"a:\n  nmae: x":               `line 2: the key "nmae" is unknown`,
		"a:\n  name: x\n  name: y":    `line 3: the key "name" stands at line 2 too`,
		"a: : b":                      "mapping values are not allowed in this context",
		"a:\n  tries: x\n  needed: 3": `line 2: "x" is a text, where a number is wanted; line 3: "3" is a number, where true or false is wanted`,
	} {
		dec := yaml.NewDecoder(strings.NewReader(text))
		dec.KnownFields(true)
		err := dec.Decode(new(map[string]server))
		if err == nil {
			t.Errorf("%q is read", text)
		} else if got := Explain(err); got != want {
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
		}
	}
}
