package scripted

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"holon/internal/yamltext"
	"holon/responses"
)

// scenario is a file as written; docs/reference/scripted-model.md has the meaning of
// every key.
type scenario struct {
	file string // its name in errors

	Name          string  `yaml:"name"`
	Description   string  `yaml:"description"`
	AfterLastTurn string  `yaml:"after_last_turn"`
	Turns         []turn  `yaml:"turns"`
	Rounds        []round `yaml:"rounds"`  // short for a single turn
	Summary       *step   `yaml:"summary"` // the answer to a request for a summary
}

// turn is the model's reaction to one message of the user.
type turn struct {
	Rounds []round `yaml:"rounds"`
}

// round is one sampling of the model: a step, or the first of several whose
// condition holds.
type round struct {
	ID    string     `yaml:"id"`
	Step  step       `yaml:",inline"`
	Cases []casestep `yaml:"cases"`
}

type casestep struct {
	When *condition `yaml:"when"`
	Step step       `yaml:",inline"`
}

// step is the model's output in a round.
type step struct {
	Expect    *condition    `yaml:"expect"`
	Delay     time.Duration `yaml:"delay"`
	Gap       time.Duration `yaml:"gap"`
	Reasoning string        `yaml:"reasoning"`
	Text      string        `yaml:"text"`
	Chunks    []string      `yaml:"chunks"`
	ChunkSize int           `yaml:"chunk_size"`
	Repeat    *repeat       `yaml:"repeat"`
	Refusal   string        `yaml:"refusal"`
	Calls     []call        `yaml:"calls"`
	Usage     *usage        `yaml:"usage"`
	Stop      string        `yaml:"stop"`
	Error     *failure      `yaml:"error"`
	Goto      string        `yaml:"goto"`
	Times     int           `yaml:"times"`
}

// repeat generates deltas cheaply, for load tests.
type repeat struct {
	Text  string        `yaml:"text"`
	Count int           `yaml:"count"`
	Gap   time.Duration `yaml:"gap"`
}

type call struct {
	Tool      string    `yaml:"tool"`
	ID        string    `yaml:"id"`
	Arguments yaml.Node `yaml:"arguments"`
	Raw       *string   `yaml:"raw"`

	json string // made of Arguments or Raw
}

type usage struct {
	Input     int64 `yaml:"input_tokens"`
	Output    int64 `yaml:"output_tokens"`
	Cached    int64 `yaml:"cached_tokens"`
	Reasoning int64 `yaml:"reasoning_tokens"`
}

type failure struct {
	Kind       string        `yaml:"kind"`
	Status     int           `yaml:"status"`
	Code       string        `yaml:"code"`
	Message    string        `yaml:"message"`
	RetryAfter time.Duration `yaml:"retry_after"`
	Attempts   int           `yaml:"attempts"` // number of failures; 0 is unlimited
}

// condition is a condition on the conversation. All fields that are set must hold.
type condition struct {
	Call       int         `yaml:"call"` // of the round before, from 1; 0 is the last
	Tool       string      `yaml:"tool"`
	Status     string      `yaml:"status"`
	ExitStatus *exitStatus `yaml:"exit_status"`
	Error      string      `yaml:"error"`
	Output     textMatch   `yaml:",inline"`
	User       *textMatch  `yaml:"user"`
	Said       *textMatch  `yaml:"said"` // by the user while the turn ran, since the round before
}

type textMatch struct {
	Contains    texts `yaml:"contains"`
	NotContains texts `yaml:"not_contains"`
	Matches     texts `yaml:"matches"`

	compiled []*regexp.Regexp
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

// exitStatus is a set of exit statuses.
type exitStatus struct {
	nonzero bool
	values  []int
}

// UnmarshalYAML reads a number, a list of numbers, or "nonzero".
func (e *exitStatus) UnmarshalYAML(n *yaml.Node) error {
	if n.Kind == yaml.ScalarNode && n.Value == "nonzero" {
		e.nonzero = true
		return nil
	}
	if n.Kind == yaml.SequenceNode {
		return n.Decode(&e.values)
	}
	var v int
	if err := n.Decode(&v); err != nil {
		return fmt.Errorf("line %d: exit_status must be a number, a list of numbers, or nonzero", n.Line)
	}
	e.values = []int{v}
	return nil
}

// parse reads and checks a scenario. Errors are *responses.Error values with
// code scenario_invalid that name file and line or field.
func parse(file string, data []byte) (*scenario, error) {
	sc := &scenario{file: file}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	dec.KnownFields(true)
	err := dec.Decode(sc)
	if errors.Is(err, io.EOF) {
		return nil, invalid(file, "the file is empty; a scenario needs rounds")
	}
	if err == nil {
		if err = dec.Decode(new(yaml.Node)); errors.Is(err, io.EOF) {
			err = nil
		} else if err == nil {
			err = errors.New("the file has more than one document")
		}
	}
	if err != nil {
		return nil, invalid(file, yamlMessage(err))
	}
	if err := sc.check(); err != nil {
		return nil, invalid(file, err.Error())
	}
	return sc, nil
}

// yamlMessage returns a decoder's error as one bounded line.
func yamlMessage(err error) string {
	msg := yamltext.Explain(err)
	if len(msg) > 500 {
		msg = strings.ToValidUTF8(msg[:500], "") + "…"
	}
	return msg
}

// responses converts u, whose total is the sum.
func (u usage) responses() responses.Usage {
	return responses.Usage{
		InputTokens: u.Input, OutputTokens: u.Output, TotalTokens: u.Input + u.Output,
		InputTokenDetails:  responses.InputTokenDetails{CachedTokens: u.Cached},
		OutputTokenDetails: responses.OutputTokenDetails{ReasoningTokens: u.Reasoning},
	}
}
