package console_test

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"

	"holon/test/expect"
)

var screenshots = flag.String("screenshots", "", "`directory` to write pictures of the pages to")

// shop is a day of an agent that works in a shop's repository.
const shop = `
turns:
  - rounds:
      - text: I read the code and run its tests first.
        calls: [{tool: ExecCommand, arguments: {cmd: "ls; cat basket.go"}}]
      - text: The discount is taken off before the tax. I correct that.
        usage: {input_tokens: 5200, output_tokens: 310}
        calls:
          - {tool: ExecCommand, arguments: {cmd: "sed -i 's/return total - discount + tax/return total + tax - discount/; s|// Total adds up.|// Total adds up; the discount comes off last.|' basket.go && printf 'Discounts come off last.\n' > NOTES.md; git diff --stat"}}
          - {tool: CreateWorkItem, arguments: {objective: Cover discounts above the total by a test}}
      - calls: [{tool: UpdateWorkItem, arguments: {work_item_id: "{{last_output:work_[0-9a-f]+}}", plan_status: needs_input}}]
      - text: |
          The basket's total is right now: **the discount comes off last**.

          ` + "```go" + `
          // Total adds up; the discount comes off last.
          func Total(total, tax, discount int) int {
          	return total + tax - discount
          }
          ` + "```" + `

          | file | change |
          |---|---|
          | basket.go | the order of the sum |
          | NOTES.md | why |

          A discount above the total still gives a negative sum; I made a work item of it.
        usage: {input_tokens: 7400, output_tokens: 620}
  - rounds:
      - {text: "The total is never negative now.", usage: {input_tokens: 2100, output_tokens: 90}}
  - rounds:
      - {text: "Nothing else is open.", usage: {input_tokens: 1300, output_tokens: 40}}
`

// Pictures of the pages, light and dark, with -screenshots.
func TestScreenshots(t *testing.T) {
	if *screenshots == "" {
		t.Skip("no -screenshots")
	}
	ctx := chromium(t)
	dir := filepath.Join(os.TempDir(), "holon") // it is in the pictures
	repo := filepath.Join(dir, "shop")
	expect.NoError(t, os.MkdirAll(repo, 0o700))
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	d := newDaemon(t, dir, shop)
	expect.NoError(t, os.WriteFile(filepath.Join(repo, "basket.go"), []byte("package shop\n\n// Total adds up.\n"+
		"func Total(total, tax, discount int) int {\n\treturn total - discount + tax\n}\n"), 0o600))
	for _, args := range [][]string{{"init", "-q"}, {"add", "-A"}, {"-c", "user.name=a", "-c", "user.email=a@example.org",
		"commit", "-qm", "first"}} {
		cmd := exec.Command("git", args...)
		cmd.Dir = repo
		expect.NoError(t, cmd.Run())
	}
	d.holon("agent", "create", "release")
	d.holon("workspace", "attach", repo)
	d.holon("workspace", "use", "shop")
	d.holon("session", "start", "--name", "editor")
	base := "http://" + d.addr + "/ui/"
	desk := tab(ctx, t, 1200, 760)
	do(desk, t, chromedp.Navigate(d.holon("ui", "--print")), signedIn,
		chromedp.Navigate(base+"agents/main"))
	for i, text := range []string{"The total of a basket with a discount is wrong. Find out why, and mend it.",
		"Can the total still be negative?", "What else is open?"} {
		do(desk, t, chromedp.SendKeys("#text", text), enter,
			is(fmt.Sprintf(`document.querySelectorAll("#rows .c-brief").length === %d`, i+1)))
	}
	for _, scheme := range []string{"light", "dark"} {
		for name, page := range map[string]string{"overview": "", "conversation": "agents/main?mode=verbose",
			"diff": "agents/main/diff", "usage": "agents/main/usage"} {
			if name == "usage" && scheme == "light" {
				continue // eight pictures say enough
			}
			shoot(desk, t, name+"-"+scheme, base+page, scheme)
		}
	}
	shoot(tab(ctx, t, 390, 780), t, "phone", base+"agents/main?mode=verbose", "light")
}

// shoot writes a picture of a page.
func shoot(ctx context.Context, t *testing.T, name, page, scheme string) {
	t.Helper()
	dark := chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		_, err := cdp.Call(ctx, target, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{
			Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: scheme}}})
		return err
	})
	do(ctx, t, dark, chromedp.Navigate(page), is(`document.readyState === "complete"`),
		is(`!document.body.dataset.from || document.getElementById("link").textContent === "live"`))
	picture, err := chromedp.Run(ctx, chromedp.CaptureScreenshot())
	expect.NoError(t, err)
	expect.NoError(t, os.WriteFile(filepath.Join(*screenshots, "console-"+name+".png"), small(t, picture), 0o644))
}

// small is a picture in its 256 most frequent colours, half as large.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	whole, err := png.Decode(bytes.NewReader(picture))
	expect.NoError(t, err)
	count, bounds := make(map[color.Color]int), whole.Bounds()
	for i := range bounds.Dx() * bounds.Dy() {
		count[whole.At(i%bounds.Dx(), i/bounds.Dx())]++
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	few := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	draw.Draw(few, bounds, whole, image.Point{}, draw.Src)
	var out bytes.Buffer
	expect.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&out, few))
	return out.Bytes()
}
