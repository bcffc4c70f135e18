package console

import (
	"html/template"
	"path"
	"regexp"
	"strings"

	"holon/internal/pattern"
)

// maxColoured bounds what is coloured, in bytes.
const maxColoured = 128 << 10

// language is what the parts of code look like: comments, texts, numbers and words, a group each. It has no grammar,
// so it fits the pieces of files in a patch as well, and takes time in proportion to the code.
type language func() *regexp.Regexp

const (
	slashes = `//[^\n]*|/\*(?s:.*?)\*/`
	quoted  = `"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'`
)

var (
	likeC      = withWords(slashes, "\"(?:\\\\.|[^\"\\\\\n])*\"|`[^`]*`|'(?:\\\\[^'\n]{1,9}|[^'\\\\\n])'")
	likeScript = withWords(slashes, quoted+"|`(?s:\\\\.|[^`\\\\])*`")
	likeShell  = withWords(`#[^\n]*`, `"""(?s:.*?)"""|'''(?s:.*?)'''|`+quoted)
	likeSQL    = withWords(`--[^\n]*|/\*(?s:.*?)\*/`, quoted)
	likeHTML   = withWords(`<!--(?s:.*?)-->`, quoted)
)

// withWords joins a language's own with numbers and words.
func withWords(comment, text string) language {
	return pattern.Lazy(`(` + comment + `)|(` + text + `)|` +
		`\b(0[xXbBoO][0-9a-fA-F_]+|[0-9][0-9_]*(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)|([\pL_][0-9\pL_]*)`)
}

// languageOf is the language of a file, or that of a name in Markdown; nil: it is not known.
func languageOf(file string) language {
	name := strings.ToLower(path.Base(file))
	switch name[strings.LastIndexByte(name, '.')+1:] {
	case "c", "cc", "cpp", "cs", "cxx", "dart", "go", "golang", "gradle", "groovy", "h", "hpp", "java", "kotlin", "kt",
		"proto", "rs", "rust", "scala", "swift", "zig":
		return likeC
	case "css", "javascript", "js", "json", "jsonc", "jsx", "less", "mjs", "php", "scss", "svelte", "ts", "tsx",
		"typescript", "vue":
		return likeScript
	case "bash", "conf", "dockerfile", "ex", "exs", "hcl", "ini", "makefile", "mk", "nix", "pl", "py", "python", "r",
		"rb", "ruby", "sh", "shell", "tf", "toml", "yaml", "yml", "zsh":
		return likeShell
	case "elm", "haskell", "hs", "lua", "sql":
		return likeSQL
	case "htm", "html", "svg", "xml":
		return likeHTML
	}
	return nil
}

// keyword reports a word that most languages which have it keep for themselves.
func keyword(word string) bool {
	switch strings.ToLower(word) {
	case "abstract", "alter", "and", "as", "assert", "async", "await", "begin", "bool", "break", "by", "case", "catch",
		"chan", "class", "const", "continue", "create", "crate", "def", "default", "defer", "del", "delete", "do", "done",
		"drop", "elif", "else", "elsif", "end", "enum", "esac", "except", "export", "extends", "extern", "false", "fi",
		"final", "finally", "float", "fn", "for", "foreach", "from", "func", "function", "go", "goto", "group", "if", "impl",
		"implements", "import", "in", "insert", "instanceof", "int", "interface", "into", "is", "join", "lambda", "let",
		"local", "loop", "map", "match", "mod", "module", "mut", "namespace", "new", "nil", "none", "not", "null", "of",
		"operator", "or", "order", "override", "package", "pass", "private", "protected", "pub", "public", "raise", "range",
		"require", "return", "select", "self", "set", "static", "string", "struct", "super", "switch", "table", "template",
		"then", "this", "throw", "trait", "true", "try", "type", "typedef", "typeof", "undefined", "union", "unsafe", "until",
		"update", "use", "using", "values", "var", "virtual", "void", "when", "where", "while", "with", "yield":
		return true
	}
	return false
}

// coloured is code as HTML, with a class for each part that has one. Code of no language has no colours.
func coloured(of language, code string) template.HTML {
	var out strings.Builder
	at := 0
	write := func(class string, end int) {
		for i, line := range strings.Split(code[at:end], "\n") { // a part ends with its line
			if i > 0 {
				out.WriteByte('\n')
			}
			if line = template.HTMLEscapeString(line); line != "" && class != "" {
				line = `<span class="` + class + `">` + line + `</span>`
			}
			out.WriteString(line)
		}
		at = end
	}
	if of != nil && len(code) <= maxColoured {
		for _, m := range of().FindAllStringSubmatchIndex(code, -1) {
			write("", m[0])
			write(classOf(code, m), m[1])
		}
	}
	write("", len(code))
	return template.HTML(out.String()) //nolint:gosec // its parts are escaped
}

// classOf is the class of the part of code that m found.
func classOf(code string, m []int) string {
	for group, class := range []string{"t-comment", "t-string", "t-number"} {
		if m[2*group+2] >= 0 {
			return class
		}
	}
	switch {
	case keyword(code[m[0]:m[1]]):
		return "t-keyword"
	case strings.HasPrefix(code[m[1]:], "("):
		return "t-name"
	}
	return ""
}
