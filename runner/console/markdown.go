package console

import (
	"bytes"
	"context"
	"html/template"
	"strings"
	"sync"
	"time"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"

	"holon/internal/visible"
)

// maxMarkdown bounds what is rendered and coloured, in bytes. What is longer is shown as it is.
const maxMarkdown = 128 << 10

// colourTime bounds how long one code is coloured. Code that takes longer has no colours.
const colourTime = 300 * time.Millisecond

// converter makes HTML of Markdown, for any number of goroutines.
var converter = sync.OnceValue(func() goldmark.Markdown {
	return goldmark.New(goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(nodes{}, 100))))
})

// markdown is Markdown of a model as HTML. HTML in it is shown as text, an image becomes a link, and a link says nothing
// of this page to where it leads.
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
				string(coloured(lexers.Get(language), string(n.Lines().Value(source)))) + "</code></pre>\n")
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

// coloured is code as HTML, with a class for each kind of token. A nil lexer colours nothing.
func coloured(lexer chroma.Lexer, code string) template.HTML {
	var out strings.Builder
	for _, line := range colouredLines(lexer, code) {
		out.WriteString(string(line))
	}
	return template.HTML(out.String()) //nolint:gosec // its lines are escaped
}

// colouredLines is coloured line by line; each line has its newline.
func colouredLines(lexer chroma.Lexer, code string) (lines []template.HTML) {
	if lexer == nil || len(code) > maxMarkdown {
		lexer = lexers.Fallback
	}
	var tokens []chroma.Token
	next, err := chroma.Coalesce(lexer).Tokenise(nil, code)
	for end := time.Now().Add(colourTime); err == nil; { // hostile code can take a lexer long
		token := next()
		if token == chroma.EOF {
			break
		}
		if tokens = append(tokens, token); time.Now().After(end) {
			err = context.DeadlineExceeded
		}
	}
	if err != nil {
		tokens = []chroma.Token{{Type: chroma.Text, Value: code}}
	}
	for _, line := range chroma.SplitTokensIntoLines(tokens) {
		var out strings.Builder
		for _, token := range line {
			part := template.HTMLEscapeString(token.Value)
			if class := classOf(token.Type); class != "" {
				part = `<span class="` + class + `">` + part + `</span>`
			}
			out.WriteString(part)
		}
		lines = append(lines, template.HTML(out.String())) //nolint:gosec // its tokens are escaped
	}
	return lines
}

func classOf(t chroma.TokenType) string {
	switch {
	case t.InCategory(chroma.Keyword):
		return "t-keyword"
	case t.InCategory(chroma.Comment):
		return "t-comment"
	case t.InSubCategory(chroma.LiteralString):
		return "t-string"
	case t.InSubCategory(chroma.LiteralNumber):
		return "t-number"
	case t == chroma.NameFunction, t == chroma.NameClass, t == chroma.NameTag, t == chroma.NameBuiltin:
		return "t-name"
	}
	return ""
}
