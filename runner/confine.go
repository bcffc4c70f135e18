package runner

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"holon/internal/visible"
	"holon/runner/engine"
)

// checkConfined asks the engine what it will enforce, before anything runs, and
// refuses what is weaker than asked for: a promise that an engine drops in
// silence is worse than none. Engines without a file system of their own confine
// nothing, and say so elsewhere.
func (s *Session) checkConfined(ctx context.Context) error {
	if !ownFiles(s.cfg.Engine) {
		return nil
	}
	made, err := s.cfg.Engine.Inspect(ctx, s.handle)
	if err != nil {
		return err
	}
	weak := engine.Weak(made.Isolation, s.Spec)
	if s.server == nil {
		weak = append(weak, "privilege_separation")
	}
	weak = slices.DeleteFunc(weak, func(name string) bool { return slices.Contains(s.cfg.Accept, name) })
	if len(weak) == 0 {
		return nil
	}
	var found []string
	for name, axis := range made.Isolation.Axes() {
		if slices.Contains(weak, name) {
			found = append(found, fmt.Sprintf("%s is %s (%s)", name, axis.Level, visible.OneLine(axis.Value, 60)))
		}
	}
	return &Error{Code: codeNotConfined, Param: "--accept-weaker",
		Message: "the engine does not confine as it should: " + strings.Join(found, ", "),
		Hint: "use another engine or --runtime, or --accept-weaker " + strings.Join(weak, ",") +
			" if that is what you want"}
}

// AxisNames are the names that Config.Accept may hold.
func AxisNames() (names []string) {
	for name := range (engine.Isolation{}).Axes() {
		names = append(names, name)
	}
	return names
}
