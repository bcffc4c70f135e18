package oneshot

import (
	"os"
	"path"
	"slices"
	"strings"
)

// names are the words of a command that may be files.
type names struct {
	paths []string          // in the tree; patterns of a shell, too
	bases map[string]bool   // their last parts, as a command may enter directories before it uses them
	set   map[string]string // the variables of its assignments
}

func (p *Paths) commandNames(command, prefix string) names {
	n := names{bases: map[string]bool{}, set: map[string]string{}}
	if p.given == nil {
		substitutes := slices.ContainsFunc([]string{"`", "$(", "<(", ">("}, func(s string) bool {
			return strings.Contains(command, s)
		})
		n.addText([]string{prefix}, command, !substitutes)
	}
	return n
}

// readers are programs that read the files they are given, and run nothing of them.
var readers = []string{"[", "cat", "cmp", "diff", "echo", "egrep", "fgrep", "grep", "head", "ls", "printf", "stat",
	"tail", "test", "wc"}

func isReader(words []string) bool {
	return len(words) > 0 && slices.Contains(readers, path.Base(words[0]))
}

// addText adds the words of what a shell runs, and returns the directories in which the next command may be. What is
// only read is left out, if readable, but not where a pipe or a file can bring it to a program that runs it.
func (n *names) addText(dirs []string, text string, readable bool) []string {
	l := lexer{}
	l.split(text)
	readable = readable && !l.writes &&
		!slices.ContainsFunc(l.commands, func(c simpleCommand) bool { return c.piped && !isReader(c.words) })
	for _, c := range l.commands {
		words := c.words
		for len(words) > 0 && slices.Contains([]string{"!", "{", "if", "then", "else", "do", "while", "until"}, words[0]) {
			words = words[1:]
		}
		if !readable || !isReader(words) {
			dirs = n.addWords(dirs, words)
		}
	}
	return dirs
}

func (n *names) addWords(dirs, words []string) []string {
	before := ""
	for _, raw := range words {
		word := os.Expand(raw, func(name string) string { return n.set[name] })
		if name, value, is := strings.Cut(word, "="); is {
			n.set[name] = value
		}
		if before == "cd" {
			dirs = append(dirs, path.Join(dirs[len(dirs)-1], word), path.Join(dirs[0], word))
		}
		if before == "-m" { // a module of Python
			module := strings.ReplaceAll(word, ".", "/")
			n.add(dirs, module, module+".py", module+"/__main__.py")
		}
		n.add(dirs, word)
		n.add(dirs, strings.FieldsFunc(raw, func(r rune) bool { return strings.ContainsRune(" \t<>'\"`=$,{}", r) })...)
		if strings.ContainsAny(raw, " \t\r\n;|&()<>'\"\\") { // it was quoted, and is perhaps a command
			dirs = n.addText(dirs, raw, false)
		}
		before = word
	}
	return dirs
}

// add adds words of a command that may be in one of dirs.
func (n *names) add(dirs []string, words ...string) {
	for _, word := range words {
		for _, dir := range dirs {
			n.paths = append(n.paths, path.Join(dir, word))
		}
		if base := path.Base(word); base != "__main__.py" {
			n.bases[base] = true
		}
	}
}

// dirs are the directories that the command names, and those of its scripts, which Python looks for modules in.
func (n *names) dirs() (list []string) {
	for _, p := range n.paths {
		if list = append(list, p); path.Ext(p) == ".py" {
			list = append(list, path.Dir(p))
		}
	}
	return list
}

// have reports whether the command names a file of the tree.
func (n *names) have(file string) bool {
	return n.bases[path.Base(file)] || slices.ContainsFunc(n.paths, func(pattern string) bool {
		is, err := path.Match(pattern, file)
		return is && err == nil || pattern == file
	})
}

// simpleCommand is a command without operators of a shell.
type simpleCommand struct {
	words []string // without their quotes
	piped bool     // it reads what the one before it prints
}

// lexer splits what a shell runs into commands.
type lexer struct {
	commands []simpleCommand
	writes   bool // a command writes to a file other than /dev/null

	command simpleCommand
	word    strings.Builder
	begun   bool // word is one, if an empty one
	target  bool // word is what the command writes to
}

func (l *lexer) split(text string) {
	quote := byte(0)
	for i := 0; i < len(text); i++ {
		c, rest := text[i], text[i+1:]
		switch {
		case c == quote:
			quote = 0
		case c == '\\' && quote != '\'' && rest != "":
			if i++; text[i] != '\n' {
				l.add(text[i])
			}
		case quote != 0:
			l.add(c)
		case c == '\'' || c == '"':
			quote, l.begun = c, true
		case c == '>':
			l.endWord()
			l.target = true
			i += len(rest) - len(strings.TrimLeft(rest, ">|&"))
		case strings.IndexByte(" \t<", c) >= 0:
			l.endWord()
		case strings.IndexByte(";&|()\r\n", c) >= 0:
			l.endCommand(c, c == '|' && !strings.HasPrefix(rest, "|"))
			i += len(rest) - len(strings.TrimLeft(rest, "|&"))
		default:
			l.add(c)
		}
	}
	l.endCommand(';', false)
}

func (l *lexer) add(c byte) {
	l.begun = true
	l.word.WriteByte(c)
}

func (l *lexer) endWord() {
	if !l.begun {
		return
	}
	word := l.word.String()
	l.command.words = append(l.command.words, word)
	l.writes = l.writes || l.target && word != "/dev/null" && word != "1" && word != "2"
	l.word.Reset()
	l.begun, l.target = false, false
}

// endCommand ends a command at an operator. A pipe may go on on the next line.
func (l *lexer) endCommand(operator byte, pipes bool) {
	l.endWord()
	if len(l.command.words) == 0 && (operator == '\r' || operator == '\n' || !l.command.piped) {
		l.command.piped = l.command.piped || pipes
		return
	}
	l.commands = append(l.commands, l.command)
	l.command = simpleCommand{piped: pipes}
}
