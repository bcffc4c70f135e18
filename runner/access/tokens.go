package access

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"holon/internal/httpserver"
	"holon/state"
)

// CodeInvalidToken is the code of errors (*state.Error) of a token, or of a file with tokens.
const CodeInvalidToken state.Code = "invalid_token"

// MinToken is how long a token must be. 43 characters of base64 are 32 random bytes; fewer could be no random ones.
const MinToken = 43

const (
	maxFile = 64 << 10
	maxName = 64 // characters of the name of a token
)

// Tokens are those of a file with a line for each, NAME:TOKEN[:RIGHT+RIGHT…]. Empty lines and lines that begin with #
// are left out. The file is read again for each token that is looked for, so that a change counts from the next request
// on. Methods are safe for concurrent use.
type Tokens struct {
	path string

	mu      sync.Mutex
	data    []byte // that list was made from
	list    []entry
	refused error // why there is no list
}

type entry struct {
	digest [sha256.Size]byte // of the token
	caller Caller
}

// OpenTokens reads the tokens of the file at path, which only its owner may use. Errors are *state.Error with
// CodeInvalidToken that name the line.
func OpenTokens(path string) (*Tokens, error) {
	t := &Tokens{path: path}
	if _, err := t.current(); err != nil {
		return nil, err
	}
	return t, nil
}

// Find returns the caller that has a token. It takes the same time for any token.
func (t *Tokens) Find(token string) (Caller, bool) {
	list, err := t.current()
	if err != nil {
		return Caller{}, false
	}
	given, found := sha256.Sum256([]byte(token)), -1
	for i := range list {
		found = subtle.ConstantTimeSelect(subtle.ConstantTimeCompare(given[:], list[i].digest[:]), i, found)
	}
	if found < 0 {
		return Caller{}, false
	}
	return list[found].caller, true
}

// Err returns why the file cannot be used as it is now, nil when it can.
func (t *Tokens) Err() error {
	_, err := t.current()
	return err
}

// current is what the file says now.
func (t *Tokens) current() ([]entry, error) {
	data, err := httpserver.ReadPrivate(t.path, maxFile+1, "name a file with a line NAME:TOKEN for each caller")
	if err == nil && len(data) > maxFile {
		err = wrong(fmt.Sprintf("is larger than %d KiB", maxFile>>10), "take lines out of it")
	}
	if err != nil {
		return nil, Refuse("--tokens-file", "the tokens file "+quoted(t.path), err)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.data == nil || !bytes.Equal(data, t.data) {
		t.data = append([]byte{}, data...) // not nil, also when it is empty
		t.list, t.refused = parse(t.path, data)
	}
	return t.list, t.refused
}

func quoted(text string) string { return fmt.Sprintf("%.200q", text) }

func wrong(what, remedy string) error { return &httpserver.TokenError{What: what, Remedy: remedy} }

// Refuse makes an *httpserver.TokenError of a token or its file an *state.Error that names the parameter.
func Refuse(param, what string, err error) error {
	wrong, ok := errors.AsType[*httpserver.TokenError](err)
	if !ok {
		return err
	}
	return &state.Error{Code: CodeInvalidToken, Param: param, Message: what + " " + wrong.What, Hint: wrong.Remedy,
		Err: wrong.Err}
}

// parse reads the lines of a file. No name and no token may be there twice: it would not be clear who a caller is.
func parse(path string, data []byte) ([]entry, error) {
	var list []entry
	number := 0
	for line := range strings.Lines(string(data)) {
		number++
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		one, err := parseLine(line)
		if err == nil {
			err = checkUnique(list, one)
		}
		if err != nil {
			return nil, Refuse("--tokens-file", fmt.Sprintf("line %d of the tokens file %s", number, quoted(path)), err)
		}
		list = append(list, one)
	}
	return list, nil
}

func checkUnique(list []entry, one entry) error {
	for _, other := range list {
		switch {
		case other.caller.Name == one.caller.Name:
			return wrong("has the name "+one.caller.Name+", as another line has", "give each token a name of its own")
		case other.digest == one.digest:
			return wrong("has the token of "+other.caller.Name, "make another one with: openssl rand -hex 32")
		}
	}
	return nil
}

// parseLine reads a line. The error is without the token.
func parseLine(line string) (one entry, err error) {
	name, rest, _ := strings.Cut(line, ":")
	token, rights, given := strings.Cut(rest, ":")
	if !usableName(name) {
		return one, wrong("does not begin with a name", fmt.Sprintf(
			"write NAME:TOKEN, the name of 1 to %d letters, digits, '.', '_' and '-', and not %s", maxName, Operator))
	}
	if err := httpserver.CheckToken(token, MinToken); err != nil {
		if bad, ok := errors.AsType[*httpserver.TokenError](err); ok {
			err = wrong("has a token that "+bad.What, bad.Remedy)
		}
		return one, err
	}
	if !given {
		rights = "sessions"
	}
	c := Caller{Name: name}
	for right := range strings.SplitSeq(rights, "+") {
		if err := c.add(right); err != nil {
			return one, err
		}
	}
	if c.Operator {
		if c.Agents != nil {
			return one, wrong("names agents, and an operator may address all", "leave agents= or operator out")
		}
		c = OfOperator(name)
	}
	return entry{sha256.Sum256([]byte(token)), c}, nil
}

// usableName reports whether a token can have a name. That of the operator's own token is taken.
func usableName(name string) bool {
	return name != "" && len(name) <= maxName && name != Operator && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._-", r)
	})
}

// add gives c a right.
func (c *Caller) add(right string) error {
	agents, ofAgents := strings.CutPrefix(right, "agents=")
	switch {
	case right == "sessions":
		c.Sessions = true
	case right == "operator":
		c.Operator = true
	case !ofAgents:
		return wrong("gives a right that does not exist", "use sessions, operator, agents=all, agents=none or agents=ID,ID")
	case c.AllAgents || c.Agents != nil:
		return wrong("has agents= more than once", "name all agents behind one agents=")
	case agents == "all":
		c.AllAgents = true
	case agents == "none":
		c.Agents = []string{}
	default:
		c.Agents = strings.Split(agents, ",")
		bad := slices.IndexFunc(c.Agents, func(id string) bool { return state.CheckAgentID(id) != nil })
		if bad >= 0 {
			return wrong("names "+quoted(c.Agents[bad])+", which is not the id of an agent",
				"use agents=all, agents=none or agents=ID,ID")
		}
	}
	return nil
}
