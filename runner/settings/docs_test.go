package settings

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"holon/internal/providers"
	"holon/test/expect"
)

// The documentation names every key and its variable.
func TestKeysAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/configuration.md")
	expect.NoError(t, err)
	_, table, _ := strings.Cut(string(data), "### Keys")
	for _, k := range keys() {
		name := strings.NewReplacer("providers.*", "providers.X", "models.catalog.*",
			"models.catalog.PROVIDER/MODEL").Replace(k.name)
		short := "…." + strings.TrimPrefix(name, "models.catalog.PROVIDER/MODEL.")
		if !strings.Contains(table, "`"+name+"`") && !strings.Contains(table, "`"+short+"`") {
			t.Errorf("%s is not in docs/reference/configuration.md", name)
		}
		if k.group() == plain && k.env != "" && !strings.Contains(string(data), k.env) {
			t.Errorf("%s is not in docs/reference/configuration.md", k.env)
		}
	}
}

// The schema has every key and no other one, with its type, its default, its variable and what a project may set.
func TestSchema(t *testing.T) {
	var root jsonschema.Schema
	expect.NoError(t, json.Unmarshal(Schema(), &root))
	_, err := root.Resolve(nil)
	expect.NoError(t, err)
	defaults := Default()
	for _, k := range keys() {
		leaf := leafOf(&root, k.segments())
		expect.Equal(t, k.name+": type", leaf.Type, schemaType(k))
		if !strings.HasSuffix(leaf.Description, sources(k)) {
			t.Errorf("%s: the description %q does not end with %q", k.name, leaf.Description, sources(k))
		}
		want := ""
		if v := shown(k.value(&defaults, k.sampleName())); k.group() == plain && !emptyValue(v) {
			data, err := json.Marshal(v)
			expect.NoError(t, err)
			want = string(data)
		}
		expect.Equal(t, k.name+": default", string(leaf.Default), want)
	}
	expect.Equal(t, "number of keys in the schema", leaves(&root), len(keys())+1) // model is a text, too
	contract := keys()[slices.IndexFunc(keys(), func(k *key) bool { return k.name == "providers.*.contract" })]
	var contracts []string
	for _, c := range providers.Contracts() {
		contracts = append(contracts, string(c))
	}
	expect.Equal(t, "contracts", fmt.Sprint(contract.choices), fmt.Sprint(contracts))
}

func schemaType(k *key) string {
	switch reflect.New(k.typ).Elem().Interface().(type) {
	case bool:
		return "boolean"
	case int, int64:
		return "integer"
	case float64, Money, *Money:
		return "number"
	case []string:
		return "array"
	}
	return "string"
}

// sources is how the description of a key ends: which variable sets it, and how a project may.
func sources(k *key) (text string) {
	switch {
	case k.env != "" && k.group() == plain:
		text = " Variable: " + k.env + "."
	case k.env != "":
		text = " Variable of provider x: X_" + strings.ToUpper(k.env) + "."
	}
	switch k.project {
	case ruleNever:
		return text
	case ruleLower:
		return text + " A project may set it lower."
	case ruleFolder, ruleFree:
		return text + " A project may set it."
	case ruleAgreed:
		return text + " A project may set it to what you agreed to."
	}
	return text + " A project may set it to " + k.project + "."
}

// leaves counts the settings of a schema.
func leaves(s *jsonschema.Schema) (n int) {
	for _, below := range s.AnyOf {
		n += leaves(below)
	}
	for _, below := range s.Properties {
		n += leaves(below)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Not == nil {
		n += leaves(s.AdditionalProperties)
	}
	if s.Type != "" && s.Type != "object" {
		n++
	}
	return n
}
