package patch

import "strings"

// build returns the text with the placed hunks, which are in order and do not
// overlap.
func (t *fileText) build(list []placed) string {
	var b strings.Builder
	next, final := 0, true // the last line written ends with a newline
	newline := "\n"        // what a last line gets when others come behind it
	write := func(line string, ended bool) {
		if !final {
			b.WriteString(newline)
		}
		b.WriteString(line)
		if ended {
			b.WriteByte('\n')
		}
		final = ended
	}
	marked := len(list) > 0 && t.marked(list[0])
	keep := func() {
		line := t.lines[next]
		if marked && next == 0 {
			line = line[len(bom):]
		}
		write(line, next < len(t.lines)-1 || t.final)
		next++
	}
	for _, p := range list {
		for next < p.pos {
			keep()
		}
		newline = t.ending("", p.level) + "\n"
		for _, l := range p.hunkLines {
			switch l.op {
			case ' ':
				keep()
			case '-':
				next++
			case '+':
				if l.noEOL {
					write(strings.TrimSuffix(l.text, "\r"), false)
				} else {
					write(t.ending(l.text, p.level), true)
				}
			}
		}
	}
	for next < len(t.lines) {
		keep()
	}
	if marked && b.Len() > 0 {
		return bom + strings.TrimPrefix(b.String(), bom)
	}
	return b.String()
}

// ending gives an added line the file's line ending, if its hunk only fitted
// without regard to them.
func (t *fileText) ending(line string, level int) string {
	if level < anyEnding {
		return line
	}
	line = strings.TrimSuffix(line, "\r")
	ended := len(t.lines)
	if !t.final {
		ended--
	}
	if 2*t.crlf > ended {
		line += "\r"
	}
	return line
}
