package preview

import (
	"regexp"
	"strconv"
)

// MinShort is the smallest budget of Shorten; below it the notice of the cut would be most of what is left.
const MinShort = 160

// notice is the notice of a cut within a preview, with the number of lines and bytes in all where it tells them.
var notice = regexp.MustCompile(`\n\.\.\.\n\[output truncated: showing first \d+ and last \d+ (?:lines|characters)` +
	`(?: of (\d+))?(?:(?:,| of) (\d+) bytes in all)?\]\n\.\.\.\n`)

// Shorten returns at most about budget bytes of a preview, which may be cut already, cut in the middle where it is
// longer; nil where the budget is too small for any. The totals in the notice stay those of the output.
func Shorten(text *string, budget int) (_ *string, truncated bool) {
	if text == nil || len(*text) <= budget {
		return text, false
	}
	if budget < MinShort {
		return nil, true
	}
	head, tail, lines, bytes := parts(*text)
	half := (budget - MinShort/2) / 2
	head, headWhole := firstBytes(head, half)
	tail, tailWhole := lastBytes(tail, half)
	s := joined(head, tail, headWhole && tailWhole, lines, bytes)
	return &s, true
}

// parts returns the head and tail of a preview and the output's line and byte counts, empty if the preview has none.
func parts(text string) (head, tail, lines, bytes string) {
	at := notice.FindAllStringSubmatchIndex(text, -1)
	if at == nil {
		return text, text, strconv.Itoa(countLines(text)), strconv.Itoa(len(text))
	}
	first, last := at[0], at[len(at)-1]
	group := func(i int) string {
		if len(at) > 1 || first[i] < 0 { // two streams, each with a notice of its own
			return ""
		}
		return text[first[i]:first[i+1]]
	}
	return text[:first[0]+1], text[last[1]:], group(2), group(4)
}
