package runner

import "holon/internal/visible"

// Printable makes text of a model, a container or a repository fit for a terminal
// and a log.
func Printable(s string) string { return visible.Text(s) }

// OneLine is visible.OneLine.
func OneLine(s string, limit int) string { return visible.OneLine(s, limit) }

// Clip is visible.Clip.
func Clip(text string, limit int) string { return visible.Clip(text, limit) }
