package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/google/jsonschema-go/jsonschema"
	"github.com/spf13/pflag"

	"holon/internal/bounded"
	"holon/internal/visible"
	"holon/responses"
	"holon/runner"
	"holon/runner/agent/rules"
	"holon/runner/settings"
	"holon/state"
)

// asking is how a run asks its model, next to the prompt.
type asking struct {
	Effort       string
	Instructions string // TEXT or @FILE
	OutputSchema string // a file

	instructions string // with those of the person
	schema       json.RawMessage
}

func (a *asking) flags(f *pflag.FlagSet) {
	f.StringVar(&a.Effort, "reasoning-effort", "",
		"`effort`: how much the model is to think: "+strings.Join(rules.Efforts, ", "))
	f.StringVar(&a.Instructions, "instructions", "", "`text` that says how to work, or @FILE with it")
	f.StringVar(&a.OutputSchema, "output-schema", "", "`file` with the JSON schema that the answer has to fit")
}

// Bounds of files that are part of a request, in bytes.
const (
	maxInstructions = 256 << 10
	maxSchema       = 256 << 10
	maxPersonal     = 32 << 10 // as agentd takes of any AGENTS.md
)

// personalFile in HOLON_HOME has the instructions of the person for all runs.
const personalFile = "AGENTS.md"

// read checks the flags, and reads the files that they name.
func (a *asking) read(home state.Home) (err error) {
	if a.Effort != "" && !slices.Contains(rules.Efforts, a.Effort) {
		return usage("--reasoning-effort", fmt.Sprintf("%q is not an effort", visible.OneLine(a.Effort, 60)),
			"write one of "+strings.Join(rules.Efforts, ", "))
	}
	a.instructions = a.Instructions
	if name, ok := strings.CutPrefix(a.Instructions, "@"); ok {
		if a.instructions, err = textFile("--instructions", name, maxInstructions); err != nil {
			return err
		}
	}
	if err := a.readSchema(); err != nil {
		return err
	}
	path := filepath.Join(home.Dir(), personalFile)
	personal, err := textFile(personalFile, path, maxPersonal)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	a.instructions = strings.TrimSpace(personal + "\n\n" + a.instructions)
	return nil
}

func (a *asking) readSchema() error {
	if a.OutputSchema == "" {
		return nil
	}
	text, err := textFile("--output-schema", a.OutputSchema, maxSchema)
	if err != nil {
		return err
	}
	var schema jsonschema.Schema
	if err = json.Unmarshal([]byte(text), &schema); err == nil {
		_, err = schema.Resolve(nil)
	}
	if err != nil || !strings.HasPrefix(strings.TrimSpace(text), "{") {
		return usage("--output-schema", visible.Name(a.OutputSchema)+" is not a JSON schema: "+
			visible.OneLine(fmt.Sprint(err), 200), `write an object, such as {"type": "object", "properties": {…}}`)
	}
	a.schema = json.RawMessage(text)
	return nil
}

// textFile reads a file that a flag, or its own name, stands for.
func textFile(param, path string, limit int64) (string, error) {
	f, err := os.Open(path)
	var data []byte
	if err == nil {
		defer f.Close()
		data, err = bounded.ReadAll(f, limit)
	}
	if err != nil {
		return "", &state.Error{Code: settings.CodeInvalid, Param: param, Message: "cannot be read", Err: err,
			Hint: fmt.Sprintf("name a file of at most %d KiB that can be read", limit>>10)}
	}
	return strings.ToValidUTF8(string(data), "\uFFFD"), nil
}

// of puts what was asked for into a request.
func (a *asking) of(req *responses.Request) {
	if a.Effort != "" {
		req.Reasoning = &responses.ReasoningConfig{Effort: &a.Effort}
	}
	req.Instructions = runner.Optional(a.instructions)
	if a.schema != nil {
		req.Text.Format = responses.TextFormat{Type: "json_schema", Name: "answer", Schema: a.schema, Strict: true}
	}
}
