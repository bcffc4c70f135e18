package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holon/test/expect"
	"holon/test/programs"
)

var (
	guideFile  = regexp.MustCompile("(?s)\n```[a-z]+\n# file: /tmp/([^\n]+)\n(.*?)```\n")
	guideBlock = regexp.MustCompile("(?s)\n```\n(\\$ .*?)```\n")
	varies     = regexp.MustCompile(`run_\w+|\b[0-9]+(\.[0-9]+)?s\b`)
)

// The guide to attempts is what happens: its files and commands, in a clone, print what it says. A line "…" stands for any
// lines; ids and times vary.
func TestGuideToAttempts(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	text, err := os.ReadFile("../../docs/guides/three-attempts.md")
	expect.NoError(t, err)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	expect.NoError(t, err)
	for _, file := range guideFile.FindAllSubmatch(text, -1) {
		path := filepath.Join(dir, string(file[1]))
		expect.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		expect.NoError(t, os.WriteFile(path, file[2], 0o644))
	}
	var script strings.Builder
	var printed []string // by each command, as the guide has it
	for _, block := range guideBlock.FindAllSubmatch(text, -1) {
		for _, part := range strings.Split("\n"+string(block[1]), "\n$ ")[1:] {
			command, output, _ := strings.Cut(part, "\n")
			script.WriteString(command + " 2>&1\necho ---- $?\n")
			printed = append(printed, output)
		}
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", strings.ReplaceAll(script.String(), "/tmp/", dir+"/"))
	cmd.Dir = "../.."
	cmd.Env = append([]string{"HOLON_HOME=" + h.dir, "HOME=" + h.dir, "TMPDIR=" + os.TempDir(),
		"PATH=" + filepath.Dir(programs.Must("holon")) + ":" + os.Getenv("PATH"),
		"DOCKER_HOST=" + os.Getenv("DOCKER_HOST")}, gitEnv...)
	out, err := cmd.CombinedOutput()
	expect.NoError(t, err)
	got := strings.Split(strings.ReplaceAll(string(out), dir+"/", "/tmp/"), "---- 0\n")
	if len(got) != len(printed)+1 {
		t.Fatalf("%d of %d commands succeeded:\n%s", len(got)-1, len(printed), out)
	}
	for i, want := range printed {
		if !fitsGuide(want, got[i]) {
			t.Errorf("the guide says\n%s\nand what is printed is\n%s", want, got[i])
		}
	}
}

// fitsGuide reports whether an output is what the guide has, in the order of its lines where "…" leaves some out.
func fitsGuide(want, got string) bool {
	pattern := regexp.QuoteMeta(varies.ReplaceAllString(strings.TrimSpace(want), "~"))
	pattern = strings.ReplaceAll(pattern, "…", "(?s:.*)")
	return regexp.MustCompile("^" + pattern + "$").MatchString(varies.ReplaceAllString(strings.TrimSpace(got), "~"))
}
