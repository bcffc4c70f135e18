package process

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/internal/redact"
	"holon/test/expect"
)

// A secret is in nothing that is kept of a stream, wherever the reads cut it, and
// the numbers are those of what is kept.
func TestCaptureKeepsNoSecrets(t *testing.T) {
	const secret = "tok-0123456789abcdef"
	known := &redact.Set{}
	known.Add("A_TOKEN", secret)
	printed := "a " + secret + "\nb " + strings.Repeat("x", 40) + secret + secret + "\nend tok-0123"
	want := strings.ReplaceAll(printed, secret, redact.Mask)
	for size := 1; size <= len(printed); size++ {
		path := filepath.Join(t.TempDir(), "out")
		c := capture{keep: 30, path: path, limit: 1 << 20, scrub: known.Stream()}
		for rest := printed; rest != ""; {
			n := min(size, len(rest))
			if got, err := c.Write([]byte(rest[:n])); got != n || err != nil {
				t.Fatal(got, err)
			}
			rest = rest[n:]
		}
		c.close()
		got := c.result()
		logged, err := os.ReadFile(path)
		expect.NoError(t, err)
		expect.Equal(t, "string(logged)", string(logged), want)
		expect.Equal(t, "got.Total", got.Total, int64(len(want)))
		expect.Equal(t, "got.Logged", got.Logged, got.Total)
		expect.Equal(t, "string(got.Head)", string(got.Head), want[:30])
		expect.Equal(t, "string(got.Tail)", string(got.Tail), want[len(want)-30:])
	}
}
