package main

import (
	"os"
	"strings"

	"holon/runner/present/terminal"
)

// renderMarkdown draws text, which is fit to be printed already, in rows of at most width columns.
func renderMarkdown(markdown string, width int, color bool) string {
	return terminal.Render(markdown, width, darkBackground(os.Getenv("COLORFGBG")), color)
}

// darkBackground reads the variable by which terminals say their colours, "15;0": a terminal is dark that does not say.
func darkBackground(colors string) bool {
	background := colors[strings.LastIndex(colors, ";")+1:]
	return background != "7" && background != "15"
}
