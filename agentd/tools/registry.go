package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"holon/responses"
)

// Registry is a fixed set of tools. It is safe for concurrent use as far as its
// tools are.
type Registry struct {
	tools map[string]entry
	names []string // in the order given
}

type entry struct {
	tool   Tool
	def    Definition
	params *parameters
}

// NewRegistry returns a registry of the given tools. It refuses a malformed or
// repeated name and a schema that is not of a closed object.
func NewRegistry(list ...Tool) (*Registry, error) {
	r, err := (&Registry{}).With(list...)
	if err == nil && len(r.names) != len(list) {
		err = errors.New("two tools have one name")
	}
	return r, err
}

// ValidName reports whether a tool can have the name: 1 to 64 letters, digits,
// '_' and '-', which every provider takes.
func ValidName(name string) bool {
	const allowed = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
	return name != "" && len(name) <= 64 && strings.Trim(name, allowed) == ""
}

func newEntry(t Tool) (entry, error) {
	def := t.Definition()
	if !ValidName(def.Name) {
		return entry{}, fmt.Errorf("tool name %q: use 1 to 64 letters, digits, _ and -", def.Name)
	}
	if def.Foreign {
		return entry{tool: t, def: def, params: &parameters{foreign: true}}, nil
	}
	params, err := compile(def.Parameters, def.Apart)
	if err != nil {
		return entry{}, fmt.Errorf("tool %s: %w", def.Name, err)
	}
	return entry{tool: t, def: def, params: params}, nil
}

// With returns a registry of these tools and more: a tool whose name is taken
// replaces the one that has it, in its place, and others follow in their order.
func (r *Registry) With(more ...Tool) (*Registry, error) {
	all := &Registry{tools: make(map[string]entry), names: slices.Clone(r.names)}
	maps.Copy(all.tools, r.tools)
	for _, t := range more {
		if c, ok := t.(completer); ok && c.Completes() {
			if err := all.complete(c); err != nil {
				return nil, err
			}
			continue
		}
		e, err := newEntry(t)
		if err != nil {
			return nil, err
		}
		if _, taken := all.tools[e.def.Name]; !taken {
			all.names = append(all.names, e.def.Name)
		}
		all.tools[e.def.Name] = e
	}
	return all, nil
}

// Subset returns a registry of the named tools alone, in the order of
// registration. A name that is not registered is an error.
func (r *Registry) Subset(names []string) (*Registry, error) {
	sub := &Registry{tools: make(map[string]entry)}
	for _, name := range names {
		e, ok := r.tools[name]
		if !ok {
			return nil, fmt.Errorf("there is no tool named %q; there are %s", Clip(name, 64),
				strings.Join(r.names, ", "))
		}
		sub.tools[name] = e
	}
	for _, name := range r.names {
		if _, ok := sub.tools[name]; ok {
			sub.names = append(sub.names, name)
		}
	}
	return sub, nil
}

// Definitions returns what a model gets, in the order of registration.
func (r *Registry) Definitions() []Definition {
	defs := make([]Definition, 0, len(r.names))
	for _, name := range r.names {
		defs = append(defs, r.tools[name].def)
	}
	return defs
}

// Run carries out call and returns both surfaces of its outcome. It always
// returns one.
func (r *Registry) Run(ctx context.Context, env Env, call Call) Outcome {
	began := time.Now()
	env = env.ForCall(call.ID)
	name := call.Name
	e, found := r.tools[call.Name]
	var out Output
	var fault error
	if found {
		out, fault = e.run(ctx, env, call)
	} else {
		name = Clip(call.Name, 64)
		out = r.unknown(name)
	}
	canonical, err := envelope(name, out)
	o := Outcome{Canonical: canonical, Fault: errors.Join(fault, err), Artifacts: env.Artifacts.List(),
		KeptBytes: env.Artifacts.size()}
	if canonical.Error == nil {
		o.Images, o.Directive = out.Images, out.Directive
	}
	o.Rendered, err = r.render(canonical, RenderPolicy{OutputDir: filepath.Dir(env.LogDir)}, env.Policy)
	o.Fault = errors.Join(o.Fault, err)
	o.Duration = time.Since(began)
	return o
}

// Render derives the model's text from a canonical result, which may come from
// a record.
func (r *Registry) Render(canonical Result, policy RenderPolicy) string {
	text, _ := r.render(canonical, policy, Policy{})
	return text
}

func (r *Registry) unknown(name string) Output {
	return Fail(&Error{
		Kind:         KindUnknownTool,
		Message:      fmt.Sprintf("there is no tool named %q", name),
		Details:      map[string]any{"requested": name, "available": r.names},
		RecoveryHint: "use one of: " + strings.Join(r.names, ", "),
	})
}

func (e entry) run(ctx context.Context, env Env, call Call) (out Output, fault error) {
	args, bad := e.params.check(call.Arguments)
	if bad != nil {
		return Fail(bad), nil
	}
	call.Arguments = args
	defer func() {
		if v := recover(); v != nil {
			out, fault = internal(), fmt.Errorf("tool %s panicked: %v\n%s", e.def.Name, v, debug.Stack())
		}
	}()
	return e.tool.Run(ctx, env, call), nil
}

func internal() Output {
	return Fail(&Error{
		Kind:         KindInternal,
		Message:      "the tool failed in a way it should not have; what it changed so far stays",
		RecoveryHint: "look at the state of the working tree before going on, or use another tool",
	})
}

// envelope makes the canonical form of an output.
func envelope(name string, out Output) (canonical Result, fault error) {
	switch {
	case (out.Result == nil) == (out.Error == nil):
		return failed(name, internal()), fmt.Errorf("tool %s returned both or neither of result and error", name)
	case out.Error != nil:
		return failed(name, out), nil
	}
	data, err := responses.Marshal(out.Result)
	if err != nil {
		return failed(name, internal()), fmt.Errorf("encode result of %s: %w", name, err)
	}
	return Result{ToolName: name, Status: statusSuccess, SummaryText: Clip(out.Summary, maxSummaryBytes), Result: data},
		nil
}

// failed is the envelope of an error. Details are bounded here too: the record
// must not grow by what a tool puts there.
func failed(name string, out Output) Result {
	e := *out.Error
	e.Message, e.RecoveryHint = Clip(e.Message, maxMessageBytes), Clip(e.RecoveryHint, maxHintBytes)
	if len(e.Details) > 0 {
		var details map[string]any
		if err := json.Unmarshal(boundDetails(e.Details), &details); err == nil {
			e.Details = details
		}
	}
	summary := out.Summary
	if summary == "" {
		summary = e.Message
	}
	return Result{ToolName: name, Status: statusError, SummaryText: Clip(summary, maxSummaryBytes), Error: &e}
}

// render gives the text for the model: the shared receipt for errors, the
// family's own for successes, plain JSON where a family has none.
func (r *Registry) render(c Result, policy RenderPolicy, budget Policy) (text string, fault error) {
	if c.Error != nil {
		return renderError(c.ToolName, c.Error), nil
	}
	if policy.MaxBytes <= 0 {
		policy.MaxBytes = budget.Budget(1<<30)*BytesPerToken + 8<<10
	}
	defer func() {
		if v := recover(); v != nil {
			text, fault = c.SummaryText, fmt.Errorf("rendering of %s panicked: %v\n%s", c.ToolName, v, debug.Stack())
		}
	}()
	if f, ok := r.tools[c.ToolName].tool.(renderer); ok {
		return Clip(f.Render(c, policy), policy.MaxBytes), nil
	}
	return Clip(c.SummaryText+"\n"+string(c.Result), policy.MaxBytes), nil
}

// Refuse returns both surfaces of a call that is not run, because of e.
func Refuse(name string, e *Error) Outcome {
	canonical := failed(Clip(name, 64), Fail(e))
	return Outcome{Canonical: canonical, Rendered: renderError(canonical.ToolName, canonical.Error)}
}
