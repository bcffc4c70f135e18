package console_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"holon/runner/agent/view"
	"holon/runner/console"
	"holon/runner/control/client"
	"holon/runner/present"
	"holon/test/expect"
)

// rig is a console in front of a plane.
type rig struct {
	*plane
	t       *testing.T
	console *console.Console
	server  *httptest.Server
	path    string // of the web sessions
	now     time.Time
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{plane: newPlane(), t: t, path: filepath.Join(t.TempDir(), "sessions"), now: time.Now()}
	r.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) { r.console.ServeHTTP(w, q) }))
	t.Cleanup(func() {
		r.server.CloseClientConnections() // a browser may hold a stream
		r.server.Close()
	})
	r.open("")
	return r
}

// open makes the console, as a daemon does that starts.
func (r *rig) open(advertised string) {
	r.t.Helper()
	behind := httptest.NewServer(r.plane)
	r.t.Cleanup(behind.CloseClientConnections)
	to, err := client.New(behind.URL, "")
	expect.NoError(r.t, err)
	r.console, err = console.New(console.Options{Client: to, Path: r.path, URL: advertised,
		Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return r.now }})
	expect.NoError(r.t, err)
}

// browser is a client with cookies. With in, it opened a link.
func (r *rig) browser(in bool) *http.Client {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	expect.NoError(r.t, err)
	b := &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	if in {
		link, _ := r.console.Login()
		if status, text, _ := r.get(b, link); status != http.StatusOK {
			r.t.Fatalf("the link answers %d %s", status, text)
		}
	}
	return b
}

func (r *rig) get(b *http.Client, path string) (int, string, http.Header) {
	return r.do(b, http.MethodGet, path, "", nil)
}

func (r *rig) do(b *http.Client, method, path, form string, header map[string]string) (int, string, http.Header) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.server.URL+path, strings.NewReader(form))
	expect.NoError(r.t, err)
	if form != "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	if method == http.MethodPost {
		req.Header.Set("Origin", r.server.URL)
	}
	for name, value := range header {
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	resp, err := b.Do(req)
	expect.NoError(r.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.NoError(r.t, err)
	return resp.StatusCode, string(body), resp.Header
}

// A link lets one browser in, once and for five minutes; the browser stays for twelve hours, across a restart, and
// until it signs out. The file has no token.
func TestSignIn(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	link, expires := r.console.Login()
	if want := r.now.Add(5 * time.Minute); expires.After(want) {
		t.Errorf("the link is good until %s, want %s at most", expires, want)
	}
	if status, _, _ := r.do(r.browser(false), http.MethodHead, link, "", nil); status != http.StatusForbidden {
		t.Errorf("a preview answers %d", status)
	}
	b := r.browser(false)
	status, _, header := r.get(b, link)
	cookie := header.Get("Set-Cookie")
	if status != http.StatusOK || !strings.Contains(cookie, "HttpOnly; SameSite=Strict") || strings.Contains(cookie, "Secure") {
		t.Errorf("the link answers %d with the cookie %q", status, cookie)
	}
	if status, _, _ := r.get(r.browser(false), link); status != http.StatusForbidden {
		t.Errorf("the link that was used answers %d", status)
	}
	text, err := os.ReadFile(r.path)
	expect.NoError(t, err)
	token, _, _ := strings.Cut(cookie[strings.Index(cookie, "=")+1:], ";")
	if info, err := os.Stat(r.path); err != nil || info.Mode().Perm() != 0o600 || strings.Contains(string(text), token) {
		t.Errorf("the file has mode %v (%v) and %s", info.Mode(), err, text)
	}
	in := func(b *http.Client) bool { status, _, _ := r.get(b, "/ui/"); return status == http.StatusOK }
	r.open("")
	r.now = r.now.Add(11 * time.Hour)
	if !in(b) || in(r.browser(false)) {
		t.Error("after a restart, the browser that signed in is out, or another one is in")
	}
	other := r.browser(true)
	if status, _, _ := r.do(other, http.MethodPost, "/ui/logout", "x=1", nil); status != http.StatusSeeOther || in(other) {
		t.Errorf("signing out answers %d, and the browser is in: %v", status, in(other))
	}
	link, _ = r.console.Login()
	r.now = r.now.Add(time.Hour)
	if status, _, _ := r.get(r.browser(false), link); in(b) || status != http.StatusForbidden {
		t.Errorf("after its time, the browser is in: %v, and a link answers %d", in(b), status)
	}
	first := r.browser(true)
	for range 32 {
		r.browser(true)
	}
	if in(first) {
		t.Error("the oldest of 33 sessions is in")
	}
	r.open("https://holon.example.org")
	link, _ = r.console.Login()
	if _, _, header := r.get(r.browser(false), link); !strings.Contains(header.Get("Set-Cookie"), "; Secure") {
		t.Errorf("the cookie of https is %q", header.Get("Set-Cookie"))
	}
}

// Nothing but the static files is shown to a browser that is not signed in, and each answer has the headers.
func TestHeadersAndAccess(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, out := r.browser(true), r.browser(false)
	for path, free := range map[string]bool{"/ui/": false, "/ui/runtime": false, "/ui/agents/main": false,
		"/ui/agents/main/stream?from=E.0": false, "/ui/agents/main/rows": false, "/ui/sessions/sess_1": false,
		"/ui/responses/resp_1/stream": false,
		"/ui/static/console.js":       true, "/ui/static/console.css": true} {
		status, text, header := r.get(out, path)
		if free != (status == http.StatusOK) || !free && status != http.StatusUnauthorized || !free && strings.Contains(text, "main</a>") {
			t.Errorf("%s answers %d to strangers", path, status)
		}
		if csp := header.Get("Content-Security-Policy"); csp != "default-src 'none'; script-src 'self'; style-src 'self'; "+
			"connect-src 'self'; img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'" ||
			header.Get("X-Content-Type-Options") != "nosniff" || header.Get("Referrer-Policy") != "same-origin" {
			t.Errorf("%s has the headers %v", path, header)
		}
	}
	for _, path := range []string{"/ui/", "/ui/agents/main", "/ui/agents/main/events", "/ui/agents/main/work"} {
		status, text, _ := r.get(b, path)
		if status != http.StatusOK || strings.Contains(text, "<style") || strings.Contains(text, " style=") ||
			strings.Contains(text, "javascript:") || strings.Count(text, "<script") != 1 || strings.Contains(text, "//") &&
			strings.Contains(text, "src=\"http") {
			t.Errorf("%s answers %d\n%s", path, status, text)
		}
	}
}

// The page of a task has its output, and input where the task takes some.
func TestTask(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	for id, input := range map[string]bool{"task_command": true, "task_child": false} {
		status, text, _ := r.get(b, "/ui/agents/main/tasks/"+id)
		if status != http.StatusOK || !strings.Contains(text, `data-stream="/ui/agents/main/tasks/`+id+`/stream"`) ||
			strings.Contains(text, "task-input") != input || !strings.Contains(text, `name="task_id" value="`+id+`"`) {
			t.Errorf("the page of %s answers %d\n%s", id, status, text)
		}
	}
}

// What a page applies is what it showed: the form has the tree that its diff came to.
func TestApplyIsOfWhatWasShown(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	r.patch = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n"
	_, text, _ := r.get(b, "/ui/agents/main/diff")
	for _, want := range []string{`name="result_tree" value="r1"`, `name="workspace_id" value="copy"`} {
		expect.Contains(t, "the page", text, want)
	}
	status, _, _ := r.do(b, http.MethodPost, "/ui/agents/main/apply", "workspace_id=copy&result_tree=r1", nil)
	expect.Equal(t, "the answer", status, http.StatusOK)
	want := []view.WorkspaceApply{{WorkspaceID: "copy", ResultTrees: []string{"r1"}}}
	if diff := cmp.Diff(want, r.applies); diff != "" {
		t.Errorf("what is applied (-want +got):\n%s", diff)
	}
	status, text, _ = r.do(b, http.MethodPost, "/ui/agents/main/apply", "workspace_id=copy&result_tree=hooks", nil)
	if status != http.StatusConflict || strings.Contains(text, "--allow") || !strings.Contains(text, "tick the box") {
		t.Errorf("what programs execute: %d %s", status, text)
	}
}

// The page of a session of another owner has no composer, and none of its paths begins a session under that id.
func TestSessionOfAnother(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	for id, want := range map[string]int{"sess_1": http.StatusConflict, "sess_other": http.StatusForbidden} {
		_, text, _ := r.get(b, "/ui/sessions/"+id)
		if composer := strings.Contains(text, `id="comments"`); composer != (id == "sess_1") {
			t.Errorf("the page of %s has a composer: %v", id, composer)
		}
		status, text, _ := r.do(b, http.MethodPost, "/ui/sessions/"+id+"/prompt", "text=hello", nil)
		expect.Equal(t, "the answer of "+id+": "+text, status, want)
	}
}

// The filter of events has every category that an event can have.
func TestFilterOfEvents(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	_, text, _ := r.get(r.browser(true), "/ui/agents/main/events?category=state_sync")
	for _, category := range present.Categories {
		if !strings.Contains(text, "<option>"+category+"</option>") &&
			!strings.Contains(text, "<option selected>"+category+"</option>") {
			t.Errorf("the filter lacks %s", category)
		}
	}
}

// A stream ends when its browser signs out.
func TestSignOutEndsStreams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	r.add("brief", "result", "answer")
	resp, err := b.Get(r.server.URL + "/ui/agents/main/stream?from=E.0")
	expect.NoError(t, err)
	defer resp.Body.Close()
	r.do(b, http.MethodPost, "/ui/logout", "x=1", nil)
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		t.Errorf("the stream ends with %v", err)
	}
}

// A request of another page changes nothing, even with the cookie.
func TestOnlyOwnPagesChangeThings(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	const prompt = "/ui/agents/main/prompt"
	own, err := url.Parse(r.server.URL)
	expect.NoError(t, err)
	for name, c := range map[string]struct {
		client *http.Client
		header map[string]string
		want   int
	}{
		"another origin":                       {b, map[string]string{"Origin": "http://evil.example"}, 403},
		"another site":                         {b, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"another port":                         {b, map[string]string{"Sec-Fetch-Site": "same-site", "Origin": "http://127.0.0.1:1"}, 403},
		"no origin":                            {b, map[string]string{"Origin": ""}, 403},
		"a null origin":                        {b, map[string]string{"Origin": "null"}, 403},
		"another scheme":                       {b, map[string]string{"Origin": "https://" + own.Host}, 403},
		"its origin, but of another site":      {b, map[string]string{"Sec-Fetch-Site": "cross-site"}, 403},
		"its origin, but of a site next to it": {b, map[string]string{"Sec-Fetch-Site": "same-site"}, 403},
		"no cookie":                            {r.browser(false), map[string]string{"Origin": own.String()}, 401},
		"no form":                              {b, map[string]string{"Origin": own.String(), "Content-Type": "application/json"}, 415},
		"its own page":                         {b, map[string]string{"Origin": own.String(), "Sec-Fetch-Site": "same-origin"}, 200},
	} {
		if status, text, _ := r.do(c.client, http.MethodPost, prompt, "text="+url.QueryEscape(name), c.header); status != c.want {
			t.Errorf("%s: %d %s, want %d", name, status, text, c.want)
		}
	}
	if diff := cmp.Diff([]string{"its own page"}, r.sent()); diff != "" {
		t.Errorf("the prompts (-want +got):\n%s", diff)
	}
	r.open("https://holon.example.org")
	for name, header := range map[string]map[string]string{
		"behind a proxy":   {"Origin": "https://holon.example.org"},
		"without a script": {"Origin": "null", "Sec-Fetch-Site": "same-origin"},
	} {
		if status, text, _ := r.do(b, http.MethodPost, prompt, "text=x", header); status != http.StatusOK {
			t.Errorf("%s: %d %s", name, status, text)
		}
	}
}

const hostile = "<script>window.pwned=1</script> <img src=x onerror=window.pwned=1> [a](javascript:window.pwned=1) " +
	"![i](http://evil.example/i.png) <http://evil.example/> \u202egnp.exe \x1b[31mred\n\n<div onclick=window.pwned=1>\n\n" +
	"```html\n<script>window.pwned=1</script>\n```\n"

// Hostile texts are text in every part of a page.
func TestTextIsText(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	for _, category := range []string{"brief", "message", "tool", hostile} {
		r.add(category, hostile, hostile)
	}
	r.patch = "diff --git a/<script>.go b/<script>.go\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n" +
		"-// <script>window.pwned=1</script>\n+var a = \"<img src=x onerror=alert(1)>\"\n"
	for _, path := range []string{"/ui/", "/ui/agents/main", "/ui/agents/main/rows", "/ui/agents/main/events",
		"/ui/agents/main/diff", "/ui/agents/<script>", "/ui/agents/main/events?type=\"><script>"} {
		status, text, _ := r.get(b, strings.NewReplacer("<", "%3C", ">", "%3E", `"`, "%22").Replace(path))
		if bad := forbidden(text); bad != "" || status >= 500 {
			t.Errorf("%s: %d, has %s\n%s", path, status, bad, text)
		}
	}
}

// forbidden is what a page has that a text of others could have brought; "": nothing.
func forbidden(page string) string {
	page = strings.Replace(page, `<script type="module" src="/ui/static/console.js"></script>`, "", 1)
	for _, bad := range []string{"<script", "<img", "<div onclick", `href="javascript`, "\u202e", "\x1b", "<b>name"} {
		if strings.Contains(page, bad) {
			return bad
		}
	}
	return ""
}

// A stream goes on behind the place where the browser was, whichever way it says that.
func TestStreamResumes(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.browser(true)
	for i := range 5 {
		r.add("brief", "result", fmt.Sprintf("answer-%d", i+1))
	}
	for from, want := range map[string]string{"E.3": "answer-4", "E.4": "answer-5"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.server.URL+"/ui/agents/main/stream?from=E.0", nil)
		expect.NoError(t, err)
		req.Header.Set("Last-Event-ID", from)
		resp, err := b.Do(req)
		expect.NoError(t, err)
		var got strings.Builder
		part := make([]byte, 4096)
		for !strings.Contains(got.String(), "answer-5") {
			n, err := resp.Body.Read(part)
			if got.Write(part[:n]); err != nil {
				t.Fatalf("%v, after %s", err, got.String())
			}
		}
		cancel()
		_ = resp.Body.Close()
		first := got.String()[strings.Index(got.String(), "answer-"):]
		if !strings.HasPrefix(first, want) || !strings.Contains(got.String(), "id: E.5\n") {
			t.Errorf("from %s: %s", from, got.String())
		}
	}
	if status, _, _ := r.get(b, "/ui/agents/main/stream?from=x"); status != http.StatusBadRequest {
		t.Errorf("a cursor that is none is answered with %d", status)
	}
}

// Text is readable on what is behind it, light and dark (WCAG 2.2, 1.4.3).
func TestContrast(t *testing.T) {
	t.Parallel()
	css, err := os.ReadFile("static/console.css")
	expect.NoError(t, err)
	light, dark, found := strings.Cut(string(css), "@media (prefers-color-scheme: dark)")
	if !found {
		t.Fatal("there is no dark scheme")
	}
	for scheme, part := range map[string]string{"light": light, "dark": dark} {
		colours := make(map[string]float64)
		for _, m := range regexp.MustCompile(`--([a-z-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(part, -1) {
			colours[m[1]] = luminance(t, m[2])
		}
		for front, backs := range map[string]string{"text": "page panel code add del", "dim": "page panel code add del",
			"link": "page panel", "good": "page panel", "bad": "page panel", "warn": "page panel", "on-accent": "accent",
			"keyword": "page code add del", "string": "page code add del", "comment": "page code add del",
			"number": "page code add del", "name": "page code add del"} {
			for _, back := range strings.Fields(backs) {
				a, b := colours[front], colours[back]
				if ratio := (max(a, b) + .05) / (min(a, b) + .05); ratio < 4.5 || a == 0 && b == 0 {
					t.Errorf("%s: %s on %s has the contrast %.2f, want 4.5", scheme, front, back, ratio)
				}
			}
		}
	}
}

// luminance is the relative luminance of a colour of six digits.
func luminance(t *testing.T, hex string) (sum float64) {
	t.Helper()
	for i, weight := range []float64{.2126, .7152, .0722} {
		n, err := strconv.ParseUint(hex[2*i:2*i+2], 16, 8)
		expect.NoError(t, err)
		c := float64(n) / 255
		if c > .04045 {
			c = math.Pow((c+.055)/1.055, 2.4)
		} else {
			c /= 12.92
		}
		sum += weight * c
	}
	return sum
}
