// Package console serves the web console: pages about agents and sessions, below /ui of the control plane.
//
//	browser ─▶ /ui (this package) ─▶ control/client ─▶ the daemon's own socket
//
// It is a client of the control plane like any other: what it shows is what that answers, and what it changes is a
// request to that. A browser comes in with a one-time link and then has the rights of the operator.
//
// The invariant: texts of agents, models and repositories reach a page as text. No page carries a script or a style of
// its own, loads anything from elsewhere, or can be put into another one's frame, and a request that changes something
// needs both the cookie and the same origin.
package console

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"holon/internal/httpserver"
	"holon/runner/agent/view"
	"holon/runner/control/client"
	"holon/runner/control/wire"
)

//go:embed templates static
var files embed.FS

// Options of a Console.
type Options struct {
	Client *client.Client // of the daemon that serves the console
	Path   string         // file that keeps the web sessions; "": they end with the process
	URL    string         // under which browsers reach the daemon; of https, the cookie goes over nothing else
	Log    *slog.Logger
	Now    func() time.Time // nil: time.Now
}

// Console is the web console. Its methods are safe for concurrent use.
type Console struct {
	client   *client.Client
	log      *slog.Logger
	sessions *sessions
	cookie   http.Cookie // without a value
	origin   string      // of the URL that others use; "": there is none
	pages    map[string]*template.Template
	digest   string // of the static files, which is their ETag
	handler  http.Handler
}

// New returns a console with the web sessions that Options.Path has.
func New(o Options) (*Console, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	kept, err := openSessions(o.Path, o.Now)
	if err != nil {
		return nil, err
	}
	name := sha256.Sum256([]byte(o.Path)) // cookies are of a host name, which daemons on different ports share
	c := &Console{client: o.Client, log: o.Log, sessions: kept, pages: make(map[string]*template.Template),
		cookie: http.Cookie{Name: "holon_ui_" + hex.EncodeToString(name[:4]), Path: "/ui", HttpOnly: true,
			SameSite: http.SameSiteStrictMode, Secure: strings.HasPrefix(o.URL, "https://")}}
	if err := c.parse(); err != nil {
		return nil, fmt.Errorf("read the pages of the console: %w", err)
	}
	if u, err := url.Parse(o.URL); err == nil && u.Host != "" { // a proxy may have changed the host name
		c.origin = u.Scheme + "://" + u.Host
	}
	c.handler = protect(c.ownPages(c.routes()))
	return c, nil
}

// ServeHTTP implements http.Handler for paths below /ui.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Login returns the path of a link that lets one browser in, once, until it expires.
func (c *Console) Login() (link string, expires time.Time) {
	token, expires := c.sessions.invite()
	return "/ui/login?token=" + token, expires
}

func (c *Console) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /ui/static/{file}", c.static)
	mux.HandleFunc("GET /ui/login", c.login)
	for pattern, page := range map[string]func(*http.Request) (page, error){
		"GET /ui/{$}":                      c.overview,
		"GET /ui/runtime":                  c.runtime,
		"GET /ui/agents/{id}":              c.conversation,
		"GET /ui/agents/{id}/queue":        c.queue,
		"GET /ui/agents/{id}/work":         c.work,
		"GET /ui/agents/{id}/tasks":        c.tasks,
		"GET /ui/agents/{id}/tasks/{task}": c.task,
		"GET /ui/agents/{id}/children":     c.children,
		"GET /ui/agents/{id}/workspaces":   c.workspaces,
		"GET /ui/agents/{id}/diff":         c.workspaceDiff,
		"GET /ui/agents/{id}/events":       c.events,
		"GET /ui/agents/{id}/usage":        c.usage,
		"GET /ui/agents/{id}/debug":        c.debug,
		"GET /ui/sessions/{id}":            c.session,
	} {
		mux.Handle(pattern, c.forUsers(func(w http.ResponseWriter, r *http.Request) { c.show(w, r, page) }))
	}
	for pattern, handle := range map[string]http.HandlerFunc{
		"GET /ui/agents/{id}/rows":                c.rows,
		"GET /ui/agents/{id}/stream":              c.stream,
		"GET /ui/agents/{id}/tasks/{task}/stream": c.taskStream,
		"GET /ui/responses/{id}/stream":           c.turnStream,
		"POST /ui/agents/{id}/{action}":           c.act(agentActions),
		"POST /ui/sessions/{id}/{action}":         c.act(sessionActions),
		"POST /ui/logout":                         c.logout,
	} {
		mux.Handle(pattern, c.forUsers(handle))
	}
	mux.HandleFunc("GET /ui", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/ui/", http.StatusSeeOther)
	})
	return mux
}

// protect sets what a browser is to refuse on behalf of every page.
func protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "+
			"img-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'self'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// ownPages refuses requests that change something unless a page of the console made them: by what the browser says of
// the page, and by its origin. A form that is sent without a script has the origin null.
func (c *Console) ownPages(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		site, origin := r.Header.Values("Sec-Fetch-Site"), r.Header.Values("Origin")
		scheme := "http://"
		if r.TLS != nil {
			scheme = "https://"
		}
		known := slices.Equal(site, []string{"same-origin"})
		own := len(origin) == 1 && (origin[0] == scheme+r.Host || c.origin != "" && origin[0] == c.origin)
		unnamed := len(origin) == 0 || slices.Equal(origin, []string{"null"})
		safe := r.Method == http.MethodGet || r.Method == http.MethodHead
		if safe || (known || len(site) == 0) && own || known && unnamed {
			next.ServeHTTP(w, r)
			return
		}
		http.Error(w, "requests of other pages are refused", http.StatusForbidden)
	})
}

// page is what a template shows.
type page struct {
	Name  string // of the template
	Title string
	Agent *view.AgentSummary // nil: the page is of no agent
	Tab   string             // of the agent's pages
	Watch string             // categories of rows after which the page is read again
	From  string             // cursor from which the page follows the agent's events
	Data  any
}

// parse reads the templates: each page is the layout with a main part of its own.
func (c *Console) parse() error {
	base, err := template.New("").Funcs(functions).ParseFS(files, "templates/layout.html", "templates/row.html",
		"templates/patch.html")
	if err != nil {
		return err
	}
	names, err := fs.Glob(files, "templates/*.html")
	if err != nil {
		return err
	}
	for _, name := range names {
		one, err := template.Must(base.Clone()).ParseFS(files, name)
		if err != nil {
			return err
		}
		c.pages[strings.TrimSuffix(path.Base(name), ".html")] = one
	}
	hash := sha256.New()
	err = fs.WalkDir(files, "static", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			var data []byte
			data, err = files.ReadFile(name)
			_, _ = hash.Write(data) // never fails
		}
		return err
	})
	c.digest = `"` + hex.EncodeToString(hash.Sum(nil)[:8]) + `"`
	return err
}

// show answers with a page, or says why there is none.
func (c *Console) show(w http.ResponseWriter, r *http.Request, of func(*http.Request) (page, error)) {
	p, err := of(r)
	status := http.StatusOK
	if r.Context().Err() != nil {
		return // the browser left
	}
	if err != nil {
		var f wire.Failure
		f, status, _ = wire.Explain(err)
		p = page{Name: "problem", Title: "Problem", Data: f.Error}
		if status >= http.StatusInternalServerError {
			c.log.Error("a page of the console failed", "err", err)
		}
	}
	c.render(w, status, p)
}

func (c *Console) render(w http.ResponseWriter, status int, p page) {
	var out bytes.Buffer
	if err := c.pages[p.Name].ExecuteTemplate(&out, "layout", p); err != nil {
		c.log.Error("a page of the console can't be made", "page", p.Name, "err", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(out.Bytes()) // an error means that the browser is gone
}

// static serves a script or a style, which are no secret.
func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	w.Header().Set("ETag", c.digest)
	http.ServeFileFS(w, r, files, "static/"+path.Base(r.PathValue("file")))
}

// login takes a one-time link. The page that follows leads on by itself: a browser sends the cookie with a request of
// our own page only.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	token, expires, ok := "", time.Time{}, false
	if r.Method == http.MethodGet { // a preview of the link does not use it up
		token, expires, ok = c.sessions.enter(r.URL.Query().Get("token"))
	}
	if !ok {
		c.render(w, http.StatusForbidden, page{Name: "signin", Title: "Sign in"})
		return
	}
	httpserver.Admit(r)
	cookie := c.cookie
	cookie.Value, cookie.Expires = token, expires
	http.SetCookie(w, &cookie)
	c.render(w, http.StatusOK, page{Name: "welcome", Title: "Signed in"})
}

func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if given, err := r.Cookie(c.cookie.Name); err == nil {
		if err := c.sessions.leave(given.Value); err != nil {
			c.log.Error("the web sessions can't be kept", "err", err)
		}
	}
	cookie := c.cookie
	cookie.MaxAge = -1
	http.SetCookie(w, &cookie)
	http.Redirect(w, r, "/ui/", http.StatusSeeOther)
}

// forUsers serves browsers that have a web session, and shows others how to get one.
func (c *Console) forUsers(next http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		given, err := r.Cookie(c.cookie.Name)
		if err != nil {
			given = &http.Cookie{} // which no session has
		}
		ctx, done, ok := c.sessions.during(r.Context(), given.Value)
		defer done()
		if !ok {
			c.render(w, http.StatusUnauthorized, page{Name: "signin", Title: "Sign in"})
			return
		}
		httpserver.Admit(r)
		next(w, r.WithContext(ctx))
	})
}
