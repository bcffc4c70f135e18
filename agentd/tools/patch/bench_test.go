package patch

import (
	"fmt"
	"strings"
	"testing"
)

// thousands makes a file of n lines, and a patch of k hunks spread over it whose
// line numbers are off by as much as add says.
func thousands(n, k, add int) (text, back, file string) {
	var f, there, again strings.Builder
	for i := range n {
		fmt.Fprintf(&f, "\tline %d of the file;\n", i+1)
	}
	there.WriteString("--- a/f\n+++ b/f\n")
	again.WriteString("--- a/f\n+++ b/f\n")
	for i := range k {
		at := n/(k+1)*(i+1) + 1
		for _, w := range []struct {
			b        *strings.Builder
			old, new string
		}{{&there, "line", "LINE"}, {&again, "LINE", "line"}} {
			fmt.Fprintf(w.b, "@@ -%d,3 +%d,3 @@\n \tline %d of the file;\n-\t%s %d of the file;\n+\t%s %d of the "+
				"file;\n \tline %d of the file;\n", at+add, at+add, at, w.old, at+1, w.new, at+1, at+2)
		}
	}
	return there.String(), again.String(), f.String()
}

func BenchmarkApply(b *testing.B) {
	for _, c := range []struct {
		name      string
		n, k, add int
	}{
		{"10 lines, right number", 10, 1, 0},
		{"10000 lines, right number", 10_000, 1, 0},
		{"10000 lines, wrong number", 10_000, 1, 5000},
		{"10000 lines, 500 hunks", 10_000, 500, 0},
		{"10000 lines, 500 hunks, wrong numbers", 10_000, 500, 7},
	} {
		b.Run(c.name, func(b *testing.B) {
			dir := b.TempDir()
			there, back, file := thousands(c.n, c.k, c.add)
			files{"f": file}.make(b, dir)
			for i := 0; b.Loop(); i++ {
				text := there
				if i%2 == 1 {
					text = back
				}
				if _, bad := apply(b.Context(), dir, text); bad != nil {
					b.Fatal(bad)
				}
			}
		})
	}
}
