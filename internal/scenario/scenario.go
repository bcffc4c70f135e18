// Package scenario reads the file that a scripted model plays, and says why one cannot be played. The host checks a
// file with it before it accepts the model, and agentd plays what it read; docs/reference/scripted-model.md has the
// meaning of every key.
package scenario

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"holon/internal/yamltext"
)

// MaxFile bounds a file, in bytes.
const MaxFile = 1 << 20

// FileNames are the names of files that the model scripted/NAME may mean, in the order in which they are looked for.
func FileNames(name string) []string {
	if ext := filepath.Ext(name); ext == ".yaml" || ext == ".yml" {
		return []string{name}
	}
	return []string{name + ".yaml", name + ".yml", name} // a program may have the name without it
}

// Parse reads and checks a file. Errors name the line or the field.
func Parse(file string, data []byte) (*Scenario, error) {
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file has more than %d bytes, the most that a scenario may have", MaxFile)
	}
	sc := &Scenario{File: file}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(sc)
	if errors.Is(err, io.EOF) {
		return nil, errors.New("the file is empty; a scenario needs rounds")
	}
	if err == nil {
		if err = dec.Decode(new(yaml.Node)); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("the file has more than one document")
		}
	}
	if err != nil {
		return nil, errors.New(yamlMessage(err))
	}
	return sc, sc.check()
}

// Scenario is a file as written.
type Scenario struct {
	File string `yaml:"-"` // its name in errors

	Name          string  `yaml:"name"`
	Description   string  `yaml:"description"`
	AfterLastTurn string  `yaml:"after_last_turn"`
	Turns         []turn  `yaml:"turns"`
	Rounds        []Round `yaml:"rounds"`  // short for a single turn
	Summary       *Step   `yaml:"summary"` // the answer to a request for a summary
}

// turn is the model's reaction to one message of the user.
type turn struct {
	Rounds []Round `yaml:"rounds"`
}

// Round is one sampling of the model: a step, or the first of several whose
// condition holds.
type Round struct {
	ID    string        `yaml:"id"`
	Step  Step          `yaml:",inline"`
	Cases []alternative `yaml:"cases"`
}

// alternative is a step with its condition.
type alternative struct {
	When *Condition `yaml:"when"`
	Step Step       `yaml:",inline"`
}

// Step is the model's output in a round.
type Step struct {
	Expect    *Condition    `yaml:"expect"`
	Delay     time.Duration `yaml:"delay"`
	Gap       time.Duration `yaml:"gap"`
	Reasoning string        `yaml:"reasoning"`
	Text      string        `yaml:"text"`
	Chunks    []string      `yaml:"chunks"`
	ChunkSize int           `yaml:"chunk_size"`
	Repeat    *Repeat       `yaml:"repeat"`
	Refusal   string        `yaml:"refusal"`
	Calls     []Call        `yaml:"calls"`
	Usage     *Usage        `yaml:"usage"`
	Stop      string        `yaml:"stop"`
	Error     *Failure      `yaml:"error"`
	Goto      string        `yaml:"goto"`
	Times     int           `yaml:"times"`
}

// Repeat generates deltas cheaply, for load tests.
type Repeat struct {
	Text  string        `yaml:"text"`
	Count int           `yaml:"count"`
	Gap   time.Duration `yaml:"gap"`
}

// Call is a call of a tool.
type Call struct {
	Tool      string    `yaml:"tool"`
	ID        string    `yaml:"id"`
	Arguments yaml.Node `yaml:"arguments"`
	Raw       *string   `yaml:"raw"`

	JSON string `yaml:"-"` // made of Arguments or Raw
}

// Usage is what a round took.
type Usage struct {
	Input     int64 `yaml:"input_tokens"`
	Output    int64 `yaml:"output_tokens"`
	Cached    int64 `yaml:"cached_tokens"`
	Reasoning int64 `yaml:"reasoning_tokens"`
}

// Failure is how the model fails.
type Failure struct {
	Kind       string        `yaml:"kind"`
	Status     int           `yaml:"status"`
	Code       string        `yaml:"code"`
	Message    string        `yaml:"message"`
	RetryAfter time.Duration `yaml:"retry_after"`
	Attempts   int           `yaml:"attempts"` // number of failures; 0 is unlimited
}

// Condition is a condition on the conversation. All fields that are set must hold.
type Condition struct {
	Call        int         `yaml:"call"` // of the round before, from 1; 0 is the last
	Tool        string      `yaml:"tool"`
	Status      string      `yaml:"status"`
	ExitStatus  *ExitStatus `yaml:"exit_status"`
	Error       string      `yaml:"error"`
	Output      TextMatch   `yaml:",inline"`
	User        *TextMatch  `yaml:"user"`
	Interjected *TextMatch  `yaml:"said"` // by the user while the turn ran, since the round before
}

// TextMatch is what a text must and must not contain.
type TextMatch struct {
	Contains    texts `yaml:"contains"`
	NotContains texts `yaml:"not_contains"`
	Matches     texts `yaml:"matches"`

	Compiled []*regexp.Regexp `yaml:"-"` // Matches
}

// texts is a list that may be written as a single text.
type texts []string

// UnmarshalYAML reads a text or a list of texts.
func (t *texts) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode {
		*t = texts{n.Value}
		return nil
	}
	var list []string
	if err := n.Decode(&list); err != nil {
		return err
	}
	*t = list
	return nil
}

// ExitStatus is a set of exit statuses.
type ExitStatus struct {
	Nonzero bool
	Values  []int
}

// UnmarshalYAML reads a number, a list of numbers, or "nonzero".
func (e *ExitStatus) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == "nonzero" {
		e.Nonzero = true
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&e.Values)
	}
	var v int
	if err := n.Decode(&v); err != nil {
		return fmt.Errorf("line %d: exit_status must be a number, a list of numbers, or nonzero", n.Line)
	}
	e.Values = []int{v}
	return nil
}

// Has reports whether a command that ended with v, nil for none, is meant.
func (e *ExitStatus) Has(v *int) bool {
	if v == nil {
		return false
	}
	return e.Nonzero && *v != 0 || slices.Contains(e.Values, *v)
}

// String returns the set for an error.
func (e *ExitStatus) String() string {
	if e.Nonzero {
		return "nonzero"
	}
	list := make([]string, len(e.Values))
	for i, v := range e.Values {
		list[i] = strconv.Itoa(v)
	}
	return words(list)
}

// yamlMessage returns a decoder's error as one bounded line.
func yamlMessage(err error) string {
	msg := yamltext.Explain(err)
	if len(msg) > 500 {
		msg = strings.ToValidUTF8(msg[:500], "") + "…"
	}
	return msg
}
