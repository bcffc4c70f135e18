package command

import (
	"slices"

	"holon/agentd/tools"
	wire "holon/responses/tasks"
)

// Family is the results of this package's tools. It implements the family of package tools.
type Family struct{}

func (Family) Owns(r tools.Result) bool {
	return slices.Contains([]string{execName, batchName, listName, statusName, OutputName, inputName, StopName},
		r.ToolName)
}

func (Family) Render(r tools.Result, policy tools.RenderPolicy) string {
	text, ok := "", false
	switch r.ToolName {
	case execName:
		return renderExec(r, policy)
	case batchName:
		return renderBatch(r, policy)
	case listName:
		text, ok = rendered(r, func(l wire.List) string { return renderList(l) })
	case statusName:
		text, ok = rendered(r, func(s statusOf) string { return s.Task.render() })
	case OutputName:
		text, ok = rendered(r, func(o wire.OutputResult) string { return renderTaskOutput(o, policy) })
	case inputName:
		text, ok = rendered(r, renderInput)
	case StopName:
		text, ok = rendered(r, renderStop)
	}
	if !ok {
		return r.SummaryText
	}
	return text
}

// rendered renders a result of type T.
func rendered[T any](canonical tools.Result, render func(T) string) (string, bool) {
	v, ok := decoded[T](canonical)
	if !ok {
		return "", false
	}
	return render(v), true
}

func (Family) Truncated(r tools.Result) bool {
	switch r.ToolName {
	case execName:
		c, _ := decoded[completedResult](r)
		p, _ := decoded[promotedResult](r)
		return c.Truncated || p.InitialOutputTruncated
	case batchName:
		v, _ := decoded[batchResult](r)
		return slices.ContainsFunc(v.Items, func(i itemResult) bool {
			cut, _ := i.ErrorDetails["truncated"].(bool)
			return cut || i.Result != nil && i.Result.Truncated
		})
	case listName:
		v, _ := decoded[wire.List](r)
		return v.Omitted > 0
	case OutputName:
		v, _ := decoded[wire.OutputResult](r)
		return v.Task.OutputTruncated
	}
	return false
}
