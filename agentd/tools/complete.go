package tools

import "context"

// KindTaskNotFound is the kind of the error of a tool for tasks that does not have the one that is named.
const KindTaskNotFound = "task_not_found"

// completer is a tool that adds to another one of its name, instead of taking its place: the host has tasks that this
// container does not have.
type completer interface {
	Tool
	Completes() bool
	// Complete returns the output of a call to which the other tool gave first.
	Complete(ctx context.Context, env Env, call Call, first Output) Output
}

// completed is a tool with one that completes it. It is described, called and rendered as the tool alone.
type completed struct {
	Tool
	more completer
}

func (c completed) Run(ctx context.Context, env Env, call Call) Output {
	return c.more.Complete(ctx, env, call, c.Tool.Run(ctx, env, call))
}

func (c completed) Render(canonical Result, policy RenderPolicy) string {
	if r, ok := c.Tool.(renderer); ok {
		return r.Render(canonical, policy)
	}
	return canonical.SummaryText
}

// complete adds a tool that completes another one to the registry. Without the other one it adds nothing.
func (r *Registry) complete(c completer) error {
	first, there := r.tools[c.Definition().Name]
	if !there {
		return nil
	}
	e, err := newEntry(completed{first.tool, c})
	if err == nil {
		r.tools[e.def.Name] = e
	}
	return err
}
