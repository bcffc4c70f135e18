package structured

import (
	"encoding/json"
	"fmt"
	"net/url"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"

	"holon/responses"
)

// Bounds of a schema and of a check.
const (
	maxSchemaBytes = 256 << 10
	maxSchemas     = 5000 // subschemas
	maxNesting     = 64   // of the schema
	maxPattern     = 1000 // bytes of a regular expression
	maxSteps       = 1e7  // about a second or two
)

// graph is what of a schema decides how long a check takes: which subschemas
// are applied to the same place of an answer, and which to the places within.
type graph struct {
	nodes []node
	index map[string]int // by JSON pointer
	order []int          // nodes that apply to the same place come first
}

type node struct {
	ref    string
	weight float64 // of the node alone
	here   []int   // applied to the same place
	within []int   // each may be applied to any place within
	one    []int   // at most one of these is applied to a place within
}

// place says where a keyword applies its subschemas.
type place uint8

const (
	nowhere place = iota + 1
	here
	within
	one
)

// applicators are the keywords that hold subschemas. Those of named say which
// have names; the others hold one, or a list.
var (
	applicators = map[string]place{
		"not": here, "if": here, "then": here, "else": here, "allOf": here, "anyOf": here, "oneOf": here,
		"dependentSchemas": here, "dependencies": here,
		"items": within, "additionalItems": within, "unevaluatedItems": within, "contains": within,
		"propertyNames":        within,
		"additionalProperties": within, "unevaluatedProperties": within, "patternProperties": within,
		"prefixItems": one, "properties": one,
		"$defs": nowhere, "definitions": nowhere,
	}
	named     = []string{"dependentSchemas", "dependencies", "patternProperties", "properties", "$defs", "definitions"}
	unoffered = []string{"$dynamicRef", "$dynamicAnchor", "$recursiveRef", "$recursiveAnchor", "$anchor"}
)

// newGraph reads a schema and refuses what could make a check endless.
func newGraph(raw json.RawMessage) (*graph, error) {
	if len(raw) > maxSchemaBytes {
		return nil, fmt.Errorf("it has %d bytes, the limit is %d", len(raw), maxSchemaBytes)
	}
	if err := responses.CheckDepth(raw); err != nil {
		return nil, err
	}
	var root any
	if err := json.Unmarshal(raw, &root); err != nil {
		return nil, err
	}
	g := &graph{index: make(map[string]int)}
	if _, err := g.add("", root, 0); err != nil {
		return nil, err
	}
	return g, g.link()
}

// add takes a subschema in, with all below it, and returns its number.
func (g *graph) add(at string, schema any, nesting int) (int, error) {
	if nesting > maxNesting {
		return 0, fmt.Errorf("it is nested deeper than %d levels", maxNesting)
	}
	if len(g.nodes) >= maxSchemas {
		return 0, fmt.Errorf("it has more than %d subschemas", maxSchemas)
	}
	id := len(g.nodes)
	g.nodes, g.index[at] = append(g.nodes, node{weight: 1}), id
	keys, ok := schema.(map[string]any)
	if !ok {
		return id, nil // true or false; the library refuses anything else
	}
	n, err := newNode(at, keys)
	if err != nil {
		return 0, fmt.Errorf("at #%.200s: %w", at, err)
	}
	for keyword, where := range applicators {
		err := subschemas(keyword, keys[keyword], func(name string, schema any) error {
			child, err := g.add(at+"/"+keyword+name, schema, nesting+1)
			switch {
			case err != nil:
				return err
			case where == here:
				n.here = append(n.here, child)
			case where == one, keyword == "items" && name != "":
				n.one = append(n.one, child)
			case where == within:
				n.within = append(n.within, child)
			}
			return nil
		})
		if err != nil {
			return 0, err
		}
	}
	g.nodes[id] = n
	return id, nil
}

// subschemas calls f with each schema that a keyword holds and the end of its
// JSON pointer.
func subschemas(keyword string, value any, f func(name string, schema any) error) error {
	switch v := value.(type) {
	case bool:
		return f("", v)
	case []any:
		for i, schema := range v {
			if err := f("/"+strconv.Itoa(i), schema); err != nil {
				return err
			}
		}
	case map[string]any:
		if !slices.Contains(named, keyword) {
			return f("", v)
		}
		for name, schema := range v {
			if err := f("/"+pointer.Replace(name), schema); err != nil {
				return err
			}
		}
	}
	return nil
}

var pointer = strings.NewReplacer("~", "~0", "/", "~1")

// newNode weighs a subschema without those below it and refuses keywords that
// lead out of the schema.
func newNode(at string, keys map[string]any) (n node, err error) {
	for _, name := range unoffered {
		if _, ok := keys[name]; ok {
			return n, fmt.Errorf("it uses %s, which is not offered here", name)
		}
	}
	if _, ok := keys["$id"]; ok && at != "" {
		return n, fmt.Errorf("it uses $id below its root, which is not offered here")
	}
	if n.ref, _ = keys["$ref"].(string); n.ref != "" && n.ref != "#" && !strings.HasPrefix(n.ref, "#/") {
		return n, fmt.Errorf("its reference %.80q leads elsewhere", n.ref)
	}
	n.weight = 1
	if values, ok := keys["enum"].([]any); ok {
		n.weight += float64(len(values)) / 8
	}
	patterns, _ := keys["patternProperties"].(map[string]any)
	expressions := make([]string, 0, len(patterns)+1)
	if p, ok := keys["pattern"].(string); ok {
		expressions = append(expressions, p)
	}
	for p := range patterns {
		expressions = append(expressions, p)
	}
	for _, p := range expressions {
		w, err := weighPattern(p)
		if err != nil {
			return n, err
		}
		n.weight += w
	}
	return n, nil
}

// weighPattern returns how much slower a regular expression makes a step.
func weighPattern(p string) (float64, error) {
	if len(p) > maxPattern {
		return 0, fmt.Errorf("a pattern has %d bytes, the limit is %d", len(p), maxPattern)
	}
	parsed, err := syntax.Parse(p, syntax.Perl)
	if err != nil {
		return 0, fmt.Errorf("the pattern %.80q cannot be used: %w", p, err)
	}
	program, err := syntax.Compile(parsed.Simplify())
	if err != nil {
		return 0, fmt.Errorf("the pattern %.80q cannot be used: %w", p, err)
	}
	return float64(len(program.Inst)) / 8, nil
}

// link turns references into edges and orders the nodes. A cycle that stays in
// one place of an answer would never end.
func (g *graph) link() error {
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.ref == "" {
			continue
		}
		path, err := url.PathUnescape(n.ref[1:])
		to, ok := g.index[path]
		if err != nil || !ok {
			return fmt.Errorf("its reference %.80q names no subschema", n.ref)
		}
		n.here = append(n.here, to)
	}
	const entered, left = 1, 2
	state := make([]uint8, len(g.nodes))
	var visit func(id int) error
	visit = func(id int) error {
		switch state[id] {
		case entered:
			return fmt.Errorf("it refers to itself without an end")
		case left:
			return nil
		}
		state[id] = entered
		for _, child := range g.nodes[id].here {
			if err := visit(child); err != nil {
				return err
			}
		}
		state[id] = left
		g.order = append(g.order, id)
		return nil
	}
	for id := range g.nodes {
		if err := visit(id); err != nil {
			return err
		}
	}
	return nil
}

// steps is an upper bound of how often a subschema is applied in the check of v,
// weighed. What is applied along one path through v depends on its depth alone.
func (g *graph) steps(v any) float64 {
	places, depth := measure(v)
	costs, below := make([]float64, len(g.nodes)), make([]float64, len(g.nodes))
	for range depth + 1 {
		costs, below = below, costs
		for _, id := range g.order {
			n := &g.nodes[id]
			cost, most := n.weight, 0.0
			for _, c := range n.here {
				cost += costs[c]
			}
			for _, c := range n.within {
				cost += below[c]
			}
			for _, c := range n.one {
				most = max(most, below[c])
			}
			costs[id] = cost + most
		}
	}
	return places * costs[0]
}

// measure counts the places of an answer, long texts as several, and its depth.
func measure(v any) (places float64, depth int) {
	within := func(child any) {
		n, d := measure(child)
		places, depth = places+n, max(depth, d+1)
	}
	places = 1
	switch v := v.(type) {
	case string:
		places += float64(len(v)) / 16
	case []any:
		for _, child := range v {
			within(child)
		}
	case map[string]any:
		for name, child := range v {
			places += float64(len(name)) / 16
			within(child)
		}
	}
	return places, depth
}
