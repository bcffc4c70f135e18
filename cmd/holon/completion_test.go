package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"holon/test/programs"
)

// Runs are completed with the newest first, and shells are told to keep that order.
func TestCompletionOrder(t *testing.T) {
	t.Parallel()
	_, command := localRuns(t, "rounds:\n  - text: Done.\n")
	succeed(t, command("run", "--quiet", "first"))
	succeed(t, command("run", "--quiet", "second"))
	out, err := command("__complete", "diff", "").Output()
	lines := strings.Split(string(out), "\n")
	if err != nil || len(lines) < 4 || !strings.HasSuffix(lines[1], "\tsecond") ||
		!strings.HasSuffix(lines[2], "\tfirst") || lines[3] != ":36" {
		t.Errorf("completed is %q, %v", out, err)
	}
}

// The shells themselves complete names of runs, models, settings and engines with the scripts of holon completion.
func TestCompletionInShells(t *testing.T) {
	t.Parallel()
	dir, command := localRuns(t, "rounds:\n  - text: Done.\n")
	succeed(t, command("run", "--quiet", "--name", "nightly", "x"))
	shells := map[string]string{
		"bash": `source <(holon completion bash); COMP_WORDS=(holon TYPED); COMP_CWORD=$((${#COMP_WORDS[@]}-1))
COMP_LINE="holon TYPED"
COMP_POINT=${#COMP_LINE}; __start_holon; printf '%s\n' "${COMPREPLY[@]}"`,
		"zsh": `autoload -U compinit; compinit -u -D; source <(holon completion zsh)
_describe() { local -a found; found=("${(@P)@[-1]}")
[[ -z $found ]] && found=("${completions[@]}"); print -rl -- $found }
compadd() { : }; words=(holon TYPED); CURRENT=${#words}; _holon`,
		"fish": `holon completion fish | source; complete -C "holon TYPED"`,
	}
	for shell, script := range shells {
		program, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed and was not tried", shell)
			continue
		}
		for line, want := range map[string]string{"show ru": "run_", "run --engine lo": "local",
			"run -m scripted/d": "scripted/demo", "config get time": "timeout", "providers get anth": "anthropic",
			"show nigh": "nightly", "config set engine lo": "local", "config set include_dirty f": "false",
			"providers set x --transport anth": "anthropic", "run --engine=lo": "local",
			"appl": "apply"} {
			if shell == "zsh" && strings.Contains(line, "=") {
				continue // what takes such a word apart is replaced above
			}
			cmd := exec.CommandContext(t.Context(), program, "-c", strings.ReplaceAll(script, "TYPED", line))
			cmd.Env = append(command().Env, "PATH="+filepath.Dir(programs.Must("holon"))+":"+os.Getenv("PATH"), "HOME="+dir)
			cmd.Dir = dir
			out, err := cmd.CombinedOutput()
			if !strings.Contains(string(out), want) {
				t.Errorf("%s completes %q to %q (%v), want %q in it", shell, line, out, err, want)
			}
		}
	}
}
