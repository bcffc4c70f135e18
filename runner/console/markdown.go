package console

import (
	"bytes"
	"html/template"
	"strings"
	"sync"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"holon/internal/visible"
)

// maxMarkdown bounds what is rendered, in bytes. What is longer is shown as it is.
const maxMarkdown = 128 << 10

// converter makes HTML of Markdown, for any number of goroutines.
var converter = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 100))))
})

// markdown is Markdown of a model as HTML. HTML in it is shown as text, an image becomes a link, and a link says
// nothing of this page to where it leads.
func markdown(source string) template.HTML {
	source = visible.Text(source)
	var out bytes.Buffer
	if len(source) <= maxMarkdown {
		if err := converter().Convert([]byte(source), &out); err == nil {
			return template.HTML(out.String()) //nolint:gosec // goldmark escapes what it does not know
		}
	}
	return template.HTML("<pre>" + template.HTMLEscapeString(source) + "</pre>") //nolint:gosec // it is escaped
}

// nodes renders the nodes of which goldmark makes something else.
type nodes struct{}

// RegisterFuncs implements renderer.NodeRenderer.
func (nodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	code := func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			language := ""
			if fenced, ok := n.(*ast.FencedCodeBlock); ok {
				language = string(fenced.Language(source))
			}
			_, _ = w.WriteString(`<pre tabindex="0"><code>` +
				string(coloured(languageOf(language), string(n.Lines().Value(source)))) + "</code></pre>\n")
		}
		return ast.WalkSkipChildren, nil
	}
	r.Register(ast.KindFencedCodeBlock, code)
	r.Register(ast.KindCodeBlock, code)
	raw := func(w util.BufWriter, lines *text.Segments, source []byte) {
		_, _ = w.Write(util.EscapeHTML(lines.Value(source)))
	}
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			raw(w, n.(*ast.RawHTML).Segments, source)
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		if block := n.(*ast.HTMLBlock); entering {
			_, _ = w.WriteString("<p>")
			raw(w, block.Lines(), source)
			if block.HasClosure() {
				_, _ = w.Write(util.EscapeHTML(block.ClosureLine.Value(source)))
			}
			_, _ = w.WriteString("</p>\n")
		}
		return ast.WalkSkipChildren, nil
	})
	link := func(w util.BufWriter, to []byte, entering bool) {
		if !entering {
			_, _ = w.WriteString("</a>")
			return
		}
		if !leadsOut(to) {
			to = nil
		}
		_, _ = w.WriteString(`<a rel="noopener noreferrer nofollow" target="_blank" href="` +
			string(util.EscapeHTML(util.URLEscape(to, true))) + `">`)
	}
	r.Register(ast.KindLink, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		link(w, n.(*ast.Link).Destination, entering)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		link(w, n.(*ast.Image).Destination, entering)
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus,
		error) {
		if entering {
			link(w, n.(*ast.AutoLink).URL(source), true)
			_, _ = w.Write(util.EscapeHTML(n.(*ast.AutoLink).Label(source)))
			link(w, nil, false)
		}
		return ast.WalkContinue, nil
	})
}

// leadsOut reports whether a link is one that a person may follow: no script, and no page of this console.
func leadsOut(to []byte) bool {
	lower := strings.ToLower(string(to))
	return strings.HasPrefix(lower, "https://") || strings.HasPrefix(lower, "http://") ||
		strings.HasPrefix(lower, "mailto:")
}
