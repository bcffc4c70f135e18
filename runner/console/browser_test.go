package console_test

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"

	"holon/test/expect"
	"holon/test/programs"
)

// chromium starts a browser without a window, or skips the test where there is none.
func chromium(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Skip("chromium is not here: apt-get install chromium")
	}
	options := append(slices.Clone(chromedp.DefaultExecAllocatorOptions[:]), chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.UserDataDir(t.TempDir()))
	ctx, cancel := chromedp.NewExecAllocator(t.Context(), options...)
	t.Cleanup(cancel)
	ctx, cancel = chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	do(ctx, t) // the browser lives as long as this context
	return ctx
}

// tab opens a tab of a size, for a bounded time.
func tab(ctx context.Context, t *testing.T, width, height int64) context.Context {
	t.Helper()
	ctx, cancel := chromedp.NewContext(ctx)
	t.Cleanup(cancel)
	do(ctx, t, chromedp.EmulateViewport(width, height))
	ctx, cancel = context.WithTimeout(ctx, 4*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// The console in a real browser, which the tests share.
func TestBrowser(t *testing.T) {
	t.Parallel()
	ctx := chromium(t)
	t.Run("conversation", func(t *testing.T) { testConversation(tab(ctx, t, 1200, 800), t) })
	t.Run("at work", func(t *testing.T) { testAtWork(tab(ctx, t, 360, 800), t) })
	t.Run("many events", func(t *testing.T) { testManyEvents(tab(ctx, t, 400, 800), t) })
}

type step = chromedp.Action[chromedp.Void]

// do takes steps in a browser.
func do(ctx context.Context, t *testing.T, steps ...step) {
	t.Helper()
	if err := chromedp.Do(ctx, steps...); err != nil {
		text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("location.href + document.documentElement.outerHTML"))
		t.Fatalf("%v, at %.3000s", err, text)
	}
}

// read returns the value of an expression in the page.
func read[T any](ctx context.Context, t *testing.T, expression string) T {
	t.Helper()
	v, err := chromedp.Run(ctx, chromedp.Evaluate[T](expression))
	expect.NoError(t, err)
	return v
}

// is waits until a page, or the one after it, holds something.
func is(expression string) step {
	return chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
		for end := time.Now().Add(2 * time.Minute); ; {
			holds, err := chromedp.Evaluate[bool]("Boolean("+expression+")")(ctx, target)
			if holds {
				return nil
			}
			if ctx.Err() != nil || time.Now().After(end) {
				return fmt.Errorf("it never holds that %s: %w", expression, cmp.Or(err, ctx.Err()))
			}
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// enter presses Enter as a keyboard does: a page can keep it from being a new line.
var enter = chromedp.Func(func(ctx context.Context, target *chromedp.Target) error {
	_, err := cdp.Call(ctx, target, input.DispatchKeyEvent, input.DispatchKeyEventParams{
		Type: input.DispatchKeyEventTypeKeyDown, Key: "Enter", Code: "Enter", Text: "\r", WindowsVirtualKeyCode: 13})
	return err
})

// signedIn waits for the page that a link leads to.
var signedIn = is(`location.pathname === "/ui/" && document.readyState === "complete"`)

// daemon is a holon with the local engine and a scripted model, whose control plane has a TCP port.
type daemon struct {
	t    *testing.T
	home string
	env  []string
	addr string
}

func newDaemon(t *testing.T, dir, scenario string) *daemon {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	expect.NoError(t, err)
	d := &daemon{t: t, home: filepath.Join(dir, "home"), addr: l.Addr().String()}
	expect.NoError(t, l.Close())
	expect.NoError(t, os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(scenario), 0o600))
	d.env = append(os.Environ(), "HOLON_HOME="+d.home, "HOLON_AGENTD="+programs.Must("agentd"), "HOLON_ENGINE=local",
		"HOLON_MODEL=scripted/"+filepath.Join(dir, "s.yaml"))
	t.Cleanup(func() { d.holon("daemon", "stop") })
	d.holon("daemon", "start", "--listen", d.addr)
	return d
}

func (d *daemon) holon(args ...string) string {
	d.t.Helper()
	cmd := exec.Command(programs.Must("holon"), args...)
	cmd.Env = d.env
	out, err := cmd.Output()
	if err != nil {
		d.t.Errorf("holon %s: %v", strings.Join(args, " "), err)
	}
	return strings.TrimSpace(string(out))
}

const scenario = `
rounds:
  - cases:
    - {when: {user: {contains: slowly}}, chunks: ["One <i>line</i>.\n", "Two.\n", "Three."], gap: 10m}
    - text: |
        The <b>answer</b>. <script>window.pwned = 1</script> <img src=x onerror="window.pwned = 1">

        [a link](javascript:window.pwned=1)
      chunk_size: 20
      gap: 5ms
`

// A person signs in by a link, talks to an agent, and goes on when the daemon comes back: no row is lost or there
// twice, and what a model writes is text.
func testConversation(ctx context.Context, t *testing.T) {
	t.Helper()
	d := newDaemon(t, t.TempDir(), scenario)
	answers := func(n int) step {
		return is(fmt.Sprintf(`document.querySelectorAll("#rows .c-brief").length === %d`, n))
	}
	do(ctx, t, chromedp.Navigate(d.holon("ui", "--print")), signedIn,
		chromedp.Click(`a[href="/ui/agents/main"]`), is(`document.getElementById("link")?.textContent === "live"`),
		chromedp.SendKeys("#text", "hello"), enter, answers(1), is(`document.getElementById("text").value === ""`))
	d.holon("daemon", "restart", "--listen", d.addr)
	d.holon("prompt", "again")
	do(ctx, t, answers(2), is(`document.getElementById("link").textContent === "live"`))
	pwned, scripts := read[bool](ctx, t, `Boolean(window.pwned)`), read[int](ctx, t, `document.scripts.length`)
	keys := read[[]string](ctx, t, `[...document.querySelectorAll("#rows > li")].map((row) => row.dataset.key)`)
	seen := make(map[string]bool)
	for _, key := range keys {
		if seen[key] {
			t.Errorf("the row %s is there twice", key)
		}
		seen[key] = true
	}
	if pwned || scripts != 1 {
		t.Errorf("a script of the model ran: %v, or is in the page: %d", pwned, scripts)
	}
	// the page of a session is a conversation too
	id := regexp.MustCompile(`ses_\w+`).FindString(d.holon("session", "start", "--json"))
	do(ctx, t, chromedp.Navigate("http://"+d.addr+"/ui/sessions/"+id), is(`document.readyState === "complete"`),
		chromedp.SendKeys("#text", "hello"), enter,
		is(`/hello[^]*The <b>answer/.test(document.getElementById("session").textContent) && !window.pwned`))
	// whose rows come while a turn goes on, and stay when the page is read again
	do(ctx, t, chromedp.SendKeys("#text", "slowly"), enter,
		is(`/slowly[^]*One <i>line/.test(document.querySelector("[data-turn]")?.textContent)`),
		chromedp.Evaluate[chromedp.Void](`window.followed = document.querySelector("[data-turn]");
			document.querySelector("h1").dataset.old = ""; document.dispatchEvent(new Event("visibilitychange"))`),
		is(`!("old" in document.querySelector("h1").dataset)`),
		is(`window.followed.isConnected && window.followed.children.length >= 2`),
		chromedp.Click(`form[action$="/cancel"] button`),
		is(`!document.querySelector("[data-turn]") && /One <i>line/.test(document.getElementById("session").textContent)`))
	// each control has a name, on each page
	for _, page := range []string{"", "agents/main", "agents/main/queue", "agents/main/work", "agents/main/tasks",
		"agents/main/children", "agents/main/workspaces", "agents/main/events", "agents/main/usage", "agents/main/debug",
		"runtime", "sessions/" + id} {
		do(ctx, t, chromedp.Navigate("http://"+d.addr+"/ui/"+page), is(`document.readyState === "complete"`))
		if wrong := read[[]string](ctx, t, checks); len(wrong) > 0 {
			t.Errorf("/ui/%s: %q", page, wrong)
		}
	}
	do(ctx, t, chromedp.Navigate("http://"+d.addr+"/ui/"))
	d.holon("agent", "create", "second")
	do(ctx, t, is(`Boolean(document.querySelector("a[href='/ui/agents/second']"))`))
}

// checks returns what readers of the screen and of the keyboard would miss on a page, and what is wider than a phone.
const checks = `(() => {
  const wrong = [];
  const name = (e) => e.getAttribute("aria-label") || e.getAttribute("aria-labelledby") ||
    e.labels?.[0]?.textContent.trim() || (e.matches("a, button, summary, svg") ? e.textContent.trim() : "");
  for (const e of document.querySelectorAll("a, button, input:not([type=hidden]), select, textarea, summary, svg, nav, " +
    "[role=region], [role=log]"))
    if (!name(e)) wrong.push("no name: " + e.outerHTML.slice(0, 200));
  for (const e of document.querySelectorAll("[tabindex]"))
    if (e.tabIndex > 0) wrong.push("order: " + e.outerHTML.slice(0, 200));
  for (const e of document.querySelectorAll("*")) {
    const scrolls = ["auto", "scroll"].includes(getComputedStyle(e).overflowY) && e.scrollHeight > e.clientHeight + 1;
    if (scrolls && e.tabIndex < 0 && e !== document.documentElement && !e.querySelector("a, button"))
      wrong.push("cannot be scrolled by keys: " + e.outerHTML.slice(0, 200));
  }
  const ids = [...document.querySelectorAll("[id]")].map((e) => e.id);
  if (new Set(ids).size !== ids.length) wrong.push("an id is there twice: " + ids);
  if (!document.documentElement.lang || !document.title || document.querySelectorAll("main").length !== 1)
    wrong.push("no main part");
  const wide = document.documentElement.scrollWidth;
  if (wide > innerWidth) wrong.push("wider than the window: " + wide);
  return wrong;
})()`

// A page that is read again takes nothing from the person at work in it: not the focus, which never goes to another
// message's button, nor what was entered. What is typed while a message is sent is the next message.
func testAtWork(ctx context.Context, t *testing.T) {
	t.Helper()
	r := newRig(t)
	link, _ := r.console.Login()
	const waiting, focused = `document.querySelectorAll("#queue [name=message_id]").length`,
		`document.activeElement.form?.elements.message_id?.value || document.activeElement.tagName`
	goTo := func(page, ready string) {
		t.Helper()
		do(ctx, t, chromedp.Navigate(r.server.URL+"/ui/"+page), is(`document.readyState === "complete" && `+ready))
	}
	do(ctx, t, chromedp.Navigate(r.server.URL+link), signedIn)

	r.wait("q-a", "q-b", "q-c", "q-d")
	goTo("agents/main/queue", `document.getElementById("link").textContent === "live"`)
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`document.querySelector("[value=q-c]").form.querySelector("button").focus()`))
	r.wait("q-b", "q-c", "q-d")
	do(ctx, t, is(waiting+" === 3"))
	expect.Equal(t, "the focus", read[string](ctx, t, focused), "q-c")
	r.wait("q-b", "q-d")
	do(ctx, t, is(waiting+" === 2"))
	expect.Equal(t, "the focus of what is gone", read[string](ctx, t, focused), "BODY")

	patch := func(line string) {
		t.Helper()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+" + line + "\n"
	}
	patch("old")
	goTo("agents/main/diff", `document.getElementById("diff").textContent.includes("+old")`)
	do(ctx, t, chromedp.SendKeys("[name=branch]", "mine"), chromedp.Evaluate[chromedp.Void](`document.activeElement.blur()`))
	patch("new")
	do(ctx, t, chromedp.Click("form[action$=apply] button"), is(`document.getElementById("diff").textContent.includes("+new")`))
	expect.Equal(t, "the branch", read[string](ctx, t, `document.querySelector("[name=branch]").value`), "mine")

	r.mu.Lock()
	r.hold = make(chan struct{})
	r.mu.Unlock()
	goTo("agents/main", `document.getElementById("link").textContent === "live"`)
	do(ctx, t, chromedp.SendKeys("#text", "one"), enter, chromedp.SendKeys("#text", "two"), enter,
		chromedp.SendKeys("#text", "three"))
	close(r.hold)
	do(ctx, t, is(`document.getElementById("notice").textContent === "Sent."`))
	expect.Equal(t, "what is typed", read[string](ctx, t, `document.getElementById("text").value`), "three")
	for len(r.sent()) < 2 {
		do(ctx, t, is(`document.getElementById("notice").textContent === "Sent."`))
	}
	expect.Equal(t, "the messages", strings.Join(r.sent(), ", "), "one, two")

	goTo("sessions/sess_0123456789abcdef0123456789abcdef", `document.querySelector("h1")`)
	if wrong := read[[]string](ctx, t, checks); len(wrong) > 0 {
		t.Errorf("the page of a session: %q", wrong)
	}
}

// Ten thousand events leave as many rows in the page as a few hundred do, and older ones come on demand. How long an
// event takes to be on the page is logged.
func testManyEvents(ctx context.Context, t *testing.T) {
	t.Helper()
	r := newRig(t)
	link, _ := r.console.Login()
	const rows = `document.querySelectorAll("#rows > li").length`
	last := func(n int) step {
		return is(fmt.Sprintf(`document.querySelector("#rows > li:last-child")?.dataset.seq === "%d"`, n))
	}
	do(ctx, t, chromedp.Navigate(r.server.URL+link), signedIn,
		chromedp.Navigate(r.server.URL+"/ui/agents/main"), is(`document.getElementById("link").textContent === "live"`))
	const elements = `document.querySelectorAll("*").length`
	for i := range 1000 {
		r.add("message", "operator", fmt.Sprintf("message %d", i))
	}
	do(ctx, t, last(1000))
	few := read[int](ctx, t, elements)
	began := time.Now()
	for i := range 9000 {
		r.add("message", "operator", fmt.Sprintf("message %d", i))
	}
	do(ctx, t, last(10000))
	t.Logf("9000 rows came in %v", time.Since(began))
	many, shown := read[int](ctx, t, elements), read[int](ctx, t, rows)
	if many > few+10 || shown > 400 {
		t.Errorf("10000 events make %d elements and %d rows, 1000 made %d", many, shown, few)
	}
	do(ctx, t, chromedp.Evaluate[chromedp.Void](`window.took = []; new MutationObserver((all) => {
		for (const m of all) for (const row of m.addedNodes) {
			const at = Number(row.querySelector(".plain")?.textContent);
			if (at > 1e12) window.took.push(Date.now() - at);
		}
	}).observe(document.getElementById("rows"), {childList: true})`))
	for i := range 50 {
		r.add("message", "timed", fmt.Sprint(time.Now().UnixMilli()))
		do(ctx, t, is(fmt.Sprintf("window.took.length === %d", i+1)))
	}
	took := read[[]float64](ctx, t, "window.took")
	slices.Sort(took)
	t.Logf("an event is on the page after %.0f ms (p50), %.0f ms (p99)", took[len(took)/2], took[len(took)*99/100])
	for range 6 { // back, page by page
		do(ctx, t, chromedp.Evaluate[chromedp.Void](`window.was = document.querySelector("#rows > li").dataset.seq;
			document.getElementById("older").click()`),
			is(`Number(document.querySelector("#rows > li").dataset.seq) < Number(window.was)`))
	}
	shown = read[int](ctx, t, rows)
	if wrong := read[[]string](ctx, t, checks); shown > 400 || len(wrong) > 0 {
		t.Errorf("older rows leave %d in the page; %q", shown, wrong)
	}
	do(ctx, t, chromedp.Click("#newest"), last(10050))
}
