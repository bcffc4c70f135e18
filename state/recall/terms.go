package recall

import (
	"iter"
	"strings"
	"unicode"

	"golang.org/x/text/unicode/norm"
)

// Bounds of what is searched for.
const (
	maxTerms = 32 // distinct ones of a query; the rest of a longer one is left out
	maxWord  = 64 // characters of a word, of which the rest does not count
)

// indexed is a text as it is indexed: its words. A run of Chinese, Japanese or Korean characters, which has no spaces
// between words, becomes the pairs of its neighbours and its last character, so that each character begins a term.
func indexed(text string) string {
	var b strings.Builder
	for word, cjk := range words(text) {
		if !cjk {
			b.WriteString(string(word) + " ")
			continue
		}
		for i := range word {
			b.WriteString(string(word[i:min(i+2, len(word))]) + " ")
		}
	}
	return b.String()
}

// queryTerms are the distinct terms of a query, as expressions of FTS5, each of which is one string: nothing of a query
// is an operator. A single Chinese, Japanese or Korean character stands for all pairs that begin with it.
func queryTerms(text string) (terms []string) {
	seen := make(map[string]bool)
	add := func(term string) {
		if !seen[term] && len(terms) < maxTerms {
			terms, seen[term] = append(terms, term), true
		}
	}
	for word, cjk := range words(text) {
		switch {
		case !cjk:
			add(`"` + string(word) + `"`)
		case len(word) == 1:
			add(`"` + string(word) + `"*`)
		default:
			for i := range len(word) - 1 {
				add(`"` + string(word[i:i+2]) + `"`)
			}
		}
		if len(terms) == maxTerms {
			break
		}
	}
	return terms
}

// wordOf is what a term of a query begins with in a text.
func wordOf(term string) string { return strings.Trim(term, `"*`) }

// words are the runs of letters and digits of a text, and whether they are Chinese, Japanese or Korean. Such a run is
// never cut, any other has at most maxWord characters.
func words(text string) iter.Seq2[[]rune, bool] {
	return func(yield func([]rune, bool) bool) {
		var word []rune
		var cjk bool
		for _, r := range norm.NFKC.String(strings.ToValidUTF8(text, " ")) + " " {
			part, is := isPart(r), isCJK(r)
			if len(word) > 0 && (!part || is != cjk) {
				if !cjk {
					word = word[:min(len(word), maxWord)]
				}
				if !yield(word, cjk) {
					return
				}
				word = nil
			}
			if part {
				word, cjk = append(word, unicode.ToLower(r)), is
			}
		}
	}
}

// isPart reports whether a character is of a word.
func isPart(r rune) bool { return unicode.In(r, unicode.L, unicode.N, unicode.M) }

// isCJK reports whether words of the script of a character have no spaces between them.
func isCJK(r rune) bool {
	return r == 'ー' || unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Hangul, unicode.Bopomofo)
}
