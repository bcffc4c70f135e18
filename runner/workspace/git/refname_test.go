package git

import (
	"os/exec"
	"strings"
	"testing"
)

func TestCheckBranch(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"a", "holon/run_01", "a/b/c", "a.b", "a@b", "feature-1", "a-", "HEADS",
		"fix/für-kunde", "wip/u\u0308ni", "修正/一"} {
		if err := CheckBranch(name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{"", "@", "HEAD", "-a", "--upload-pack=x", "a/-b", "refs/heads/a", "refs/../x", "a..b",
		"a//b", "/a", "a/", "a.", ".a", "a/.b", "a.lock", "a.LOCK",
		"a.lock/b", "a@{1}", "a b", "a~1", "a^", "a:b", "a?", "a*", "a[b", `a\b`, "a\x7f", "a\x00", "a\nb", "a\x1b[2J",
		"\u202ea", "a\u2066b", "a\u200bb", "a\u00a0b", "a\u2028b", "a\u0085b", "a\xff", "a\xc3/b", "a\ufffdb", "a\ue000",
		strings.Repeat("a", 201)} {
		if CheckBranch(name) == nil {
			t.Errorf("%q was accepted", name)
		}
	}
}

// Names that git refuses for a branch are refused.
func FuzzCheckBranch(f *testing.F) {
	for _, name := range []string{"a", "a/b", "-a", "@", "HEAD", "a..b", "a.lock", "a@{", "a.", "/", "a//b", ".a", "a~",
		"refs/heads/a", "@/a", "a\\b", "ü", "a\u0308"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if CheckBranch(name) != nil {
			return
		}
		if out, err := exec.Command("git", "check-ref-format", "--branch", name).CombinedOutput(); err != nil ||
			strings.TrimSpace(string(out)) != name {
			t.Fatalf("accepted %q, git says %s", name, out)
		}
	})
}
