package tools

// Refuse returns both surfaces of a call that is not run, because of e.
func Refuse(name string, e *Error) Outcome {
	canonical := failed(Clip(name, 64), Fail(e))
	return Outcome{Canonical: canonical, Rendered: renderError(canonical.ToolName, canonical.Error)}
}
