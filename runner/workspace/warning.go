package workspace

import (
	"fmt"
	"slices"
	"strings"

	"holon/runner/workspace/executed"
)

// warningList keeps a bounded number of warnings of each code.
type warningList struct {
	kept   []Warning
	count  map[string]int // of each code
	unsaid map[string]int // of each code, not kept
	bytes  int            // of the paths that are kept, as JSON
}

func (l *warningList) add(w Warning) {
	if l.count == nil {
		l.count, l.unsaid = map[string]int{}, map[string]int{}
	}
	l.count[w.Code]++
	size := changeSize(w.Path)
	if l.count[w.Code] > maxWarnings || l.bytes+size > maxWarningBytes {
		l.unsaid[w.Code]++
		return
	}
	l.bytes += size
	l.kept = append(l.kept, w)
}

// list returns the warnings by path, and one for each kind with warnings that were not kept.
func (l *warningList) list() []Warning {
	list := slices.Clone(l.kept)
	for code, n := range l.unsaid {
		list = append(list, Warning{Code: WarnMore, Message: fmt.Sprintf("%d more of kind %s", n, code)})
	}
	slices.SortFunc(list, func(a, b Warning) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return strings.Compare(a.Code+a.Message, b.Code+b.Message)
	})
	return list
}

// ExecutedWarnings returns a warning for each changed file that a program executes unasked.
func ExecutedWarnings(matches []executed.Match) []Warning {
	warnings := make([]Warning, len(matches))
	for i, m := range matches {
		program := m.Program
		if strings.Contains(program, ", as ") {
			program += "," // "git, as hooks"
		}
		warnings[i] = Warning{Code: WarnExecuted, Path: m.Path, Message: "executed by " + program + " without being asked to"}
	}
	return warnings
}
