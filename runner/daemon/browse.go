package daemon

import (
	"context"
	"errors"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"

	"holon/internal/durable"
	"holon/state"
)

// CodeNoBrowser says that nothing here opens a link.
const CodeNoBrowser state.Code = "no_browser"

// Browse opens a link that is a secret in the person's browser. The browser is given a file of the home that leads to
// the link: other users see the arguments of programs.
func Browse(ctx context.Context, home, link string) error {
	path := filepath.Join(home, "run", "ui.html")
	page := `<!doctype html><meta charset="utf-8"><meta name="referrer" content="no-referrer">` +
		`<meta http-equiv="refresh" content="0; url=` + html.EscapeString(link) + `"><title>holon</title>`
	if err := durable.WriteFile(path, []byte(page), 0o600); err != nil {
		return fmt.Errorf("write the page that leads to the console: %w", err)
	}
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	}
	out, err := exec.CommandContext(ctx, program, path).CombinedOutput()
	if err == nil {
		return nil
	}
	message := "no browser opened"
	if errors.Is(err, exec.ErrNotFound) {
		message = program + ", which opens a browser, is not here"
	}
	return errors.Join(&state.Error{Code: CodeNoBrowser, Param: "browser", Message: message,
		Hint: "print the link with: holon ui --print", Err: fmt.Errorf("%w: %.200s", err, out)}, os.Remove(path))
}
