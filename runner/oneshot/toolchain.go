package oneshot

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"holon/internal/toolchain"
	"holon/internal/visible"
	"holon/runner"
	"holon/runner/sessions"
	"holon/state"
)

// Codes of runs that are refused before a model is asked.
const (
	CodeNoShell      runner.Code = "image_without_shell"
	CodeToolsMissing runner.Code = "tools_missing"
)

// checkTools compares what the files of the tree need with what the container has: the manifest has both, and what is
// missing is a warning, or with RequireTools an error. Without a shell an agent can run nothing.
func (r *execution) checkTools(s *sessions.Session) error {
	place := "this machine"
	if image := r.manifest.Image; image != "" {
		place = visible.OneLine(image, 200)
	}
	if !slices.Contains(s.Programs, toolchain.Shell) {
		return &runner.Error{Code: CodeNoShell, Param: "--image",
			Message: place + " has no sh, by which the agent runs commands", Hint: "use an image with a shell"}
	}
	if s.Tree() == nil || r.spec.disposable { // of a check, whose run had it checked
		return nil
	}
	tree, err := os.OpenRoot(s.Tree().Dir())
	if err != nil {
		return fmt.Errorf("look for what the workspace needs: %w", err)
	}
	defer tree.Close()
	dirs := []string{"."}
	if prefix := s.Tree().Info().Prefix; prefix != "" {
		dirs = append(dirs, prefix)
	}
	var missing, old []string
	for _, n := range toolchain.Needs(tree.FS(), dirs...) {
		tool := state.Tool{Program: n.Program, File: n.File, Present: slices.Contains(s.Programs, n.Program),
			Requires: n.Requires(tree.FS()), Below: n.Below(tree.FS()), Version: visible.OneLine(s.Versions[n.Program], 50)}
		r.manifest.Toolchain = append(r.manifest.Toolchain, tool)
		unmet := toolchain.Unmet(tool.Version, tool.Requires, tool.Below)
		switch {
		case !tool.Present:
			missing = append(missing, visible.Name(n.File)+" needs "+n.Program)
		case unmet != "":
			old = append(old, fmt.Sprintf("%s needs %s %s, and %s has %s", visible.Name(n.File), n.Program, unmet, place,
				tool.Version))
		}
	}
	if len(missing)+len(old) == 0 {
		return nil
	}
	if len(missing) > 0 {
		old = append([]string{strings.Join(missing, " and ") + ", which " + place + " does not have"}, old...)
	}
	what := strings.Join(old, "; ")
	remedy := toolchain.Remedy(r.manifest.Image)
	if r.spec.RequireTools {
		return &runner.Error{Code: CodeToolsMissing, Param: "--require-tools", Message: what, Hint: remedy}
	}
	r.manifest.Warnings = append(r.manifest.Warnings, what+"; "+remedy)
	return nil
}
