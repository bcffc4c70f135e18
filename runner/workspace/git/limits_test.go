package git

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/test/expect"
	"holon/test/gittest"
)

// A git process that is made to be slow or large is ended, and the error says by which bound.
func TestGitBudgets(t *testing.T) {
	t.Parallel()
	repo := Repository{Dir: filepath.Join(t.TempDir(), "r"), Format: SHA1}
	expect.NoError(t, repo.Create())
	t.Run("memory", func(t *testing.T) {
		g := repo.Git()
		g.memory = 64 << 20
		_, err := g.Run(t.Context(), endless{}, "hash-object", "--stdin")
		wantCode(t, WithCode("hash", err), codeGitBudget)
	})
	t.Run("processor time", func(t *testing.T) {
		_, err := repo.Git().WithCPUTime(time.Second).Run(t.Context(),
			io.MultiReader(strings.NewReader("blob\ndata 99999999999\n"), endless{}), "fast-import", "--quiet")
		wantCode(t, WithCode("import", err), codeGitBudget)
		if !strings.Contains(err.Error(), "processor time") {
			t.Error(err)
		}
	})
	t.Run("processor time by a shell", func(t *testing.T) { // as on macOS
		g := repo.Git().WithCPUTime(time.Second)
		args := []string{"fast-import", "--quiet"}
		cmd, stderr := g.command(t.Context(), args)
		cmd.Stdin = io.MultiReader(strings.NewReader("blob\ndata 99999999999\n"), endless{})
		byShell(cmd, g.seconds())
		wantCode(t, WithCode("import", g.result(t.Context(), args, cmd.Run(), stderr)), codeGitBudget)
	})
	t.Run("output", func(t *testing.T) {
		out := &boundedBuffer{limit: 10}
		if _, err := out.Write(make([]byte, 11)); err == nil || !out.passed {
			t.Error(err)
		}
	})
	t.Run("references", func(t *testing.T) {
		user := gittest.NewRepo(t, map[string]string{"a": "a\n"})
		gittest.Write(t, user, map[string]string{".git/packed-refs": packedHeader})
		expect.NoError(t, os.Truncate(filepath.Join(user, ".git/packed-refs"), maxPackedRefs+1))
		opened, err := Locate(t.Context(), user, Borrowing{})
		if err == nil {
			err = opened.LoadReferences(t.Context())
		}
		wantCode(t, err, CodeBrokenRepository)
	})
}

// Git is started by one function, and its environment comes from one constructor: no other place of the module runs it.
func TestGitIsStartedInOnePlace(t *testing.T) {
	t.Parallel()
	const module = "../../../"
	var found []string
	err := filepath.WalkDir(module, func(path string, d os.DirEntry, err error) error {
		if err == nil && path == module+"test" {
			return filepath.SkipDir // programs that test the product
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		name := strings.TrimPrefix(path, module)
		for line := range strings.Lines(string(text)) {
			if strings.Contains(line, `"git"`) &&
				(strings.Contains(line, "exec.") || strings.Contains(line, "Command(")) {
				found = append(found, name)
			}
			if strings.Contains(line, "Runner{") && !strings.Contains(line, "//") &&
				strings.HasPrefix(name, "runner/workspace/") {
				found = append(found, name+": "+strings.TrimSpace(line))
			}
		}
		return err
	})
	want := []string{"runner/workspace/git/runner.go: return Runner{Dir: gitDir, env: append(own, env...), " +
		"processor: defaultProcessorTime, memory: maxGitMemory}", "runner/workspace/git/runner.go"}
	if err != nil || !slices.Equal(found, want) {
		t.Fatalf("git is started at %q, %v, want %q", found, err, want)
	}
}

// endless never runs out of zeros.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// A git process that is bound to this one is dead when this one is: it does not answer any more.
func TestGitEndsWithParent(t *testing.T) {
	const variable = "HOLON_TEST_GIT_PARENT"
	if dir := os.Getenv(variable); dir != "" { // the parent
		g := Repository{Dir: dir, Format: SHA1}.Git().EndingWithParent()
		t.Fatal(g.Stream(t.Context(), os.Stdin, os.Stdout, "cat-file", "--batch-check"))
	}
	t.Parallel()
	repo := Repository{Dir: filepath.Join(t.TempDir(), "r"), Format: SHA1}
	expect.NoError(t, repo.Create())
	stdin, ask, err := os.Pipe()
	expect.NoError(t, err)
	answers, stdout, err := os.Pipe()
	expect.NoError(t, err)
	parent := exec.Command(os.Args[0], "-test.run=^TestGitEndsWithParent$")
	parent.Env = append(os.Environ(), variable+"="+repo.Dir)
	parent.Stdin, parent.Stdout = stdin, stdout
	expect.NoError(t, parent.Start())
	expect.NoError(t, stdin.Close())
	expect.NoError(t, stdout.Close())
	_, err = ask.WriteString("one\n")
	expect.NoError(t, err)
	lines := bufio.NewReader(answers)
	first, err := lines.ReadString('\n')
	expect.NoError(t, err)
	expect.Equal(t, "the first answer", first, "one missing\n")
	expect.NoError(t, parent.Process.Kill())
	_ = parent.Wait()               // it was killed
	_, _ = ask.WriteString("two\n") // which has no reader any more
	expect.NoError(t, ask.Close())
	rest, err := io.ReadAll(lines)
	expect.NoError(t, err)
	expect.Equal(t, "answers after its end", string(rest), "")
}
