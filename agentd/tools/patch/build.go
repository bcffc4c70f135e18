package patch

import "strings"

// builder writes a file line by line and remembers whether the last one has its newline.
type builder struct {
	text    strings.Builder
	final   bool
	newline string // what a last line without newline gets when another follows
}

func (b *builder) write(line string, ended bool) {
	if !b.final {
		b.text.WriteString(b.newline)
	}
	b.text.WriteString(line)
	if ended {
		b.text.WriteByte('\n')
	}
	b.final = ended
}

// build returns the text with the placed hunks, which are in order and do not overlap.
func (t *fileText) build(list []placed) string {
	b := &builder{final: true, newline: "\n"}
	marked := len(list) > 0 && t.marked(list[0])
	next := 0
	keep := func(end int) {
		for ; next < end; next++ {
			line := t.lines[next]
			if marked && next == 0 {
				line = line[len(bom):]
			}
			b.write(line, next < len(t.lines)-1 || t.final)
		}
	}
	for _, p := range list {
		keep(p.pos)
		b.newline = t.ending("", p.endings) + "\n"
		for _, l := range p.lines {
			switch {
			case l.op == ' ':
				keep(next + 1)
			case l.op == '-':
				next++
			case l.noEOL:
				b.write(strings.TrimSuffix(l.text, "\r"), false)
			default:
				b.write(t.ending(l.text, p.endings), true)
			}
		}
	}
	keep(len(t.lines))
	if marked && b.text.Len() > 0 {
		return bom + strings.TrimPrefix(b.text.String(), bom)
	}
	return b.text.String()
}

// ending gives an added line the file's line ending if its hunk fitted only without regard to line endings.
func (t *fileText) ending(line string, differs bool) string {
	if !differs {
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
