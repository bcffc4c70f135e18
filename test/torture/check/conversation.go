package check

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"holon/responses/stream"
	"holon/test/conform"
)

// Conversations is what the sessions of clients in a home say of themselves.
type Conversations struct {
	Responses map[string]*Conversed // by the id of the response
	Going     []string              // turns without an end
	Effects   map[string]bool       // lines that commands wrote, each once
}

// Conversed is a turn of a session.
type Conversed struct {
	Session, Turn string
	ends          int
	dir           string // of the turn
	state         string // agentd's
}

// ReadConversations reads the sessions below a directory. A turn has one response, which has one end and is in one
// session, and no command ran twice, whatever happened meanwhile.
func ReadConversations(sessions string) (c *Conversations, err error) {
	c = &Conversations{Responses: make(map[string]*Conversed), Effects: make(map[string]bool)}
	dirs, err := filepath.Glob(filepath.Join(sessions, "ses_*"))
	if err != nil {
		return nil, err
	}
	turns := make(map[string]string) // their responses
	for _, dir := range dirs {
		if strings.Contains(filepath.Base(dir), ".damaged-") {
			return nil, fmt.Errorf("a session was set aside as damaged: %s", dir)
		}
		if err = errors.Join(c.readLog(dir, turns), c.readEffects(dir)); err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(dir), err)
		}
	}
	return c, nil
}

const conversationLog = "log.ndjson"

func (c *Conversations) readLog(dir string, turns map[string]string) error {
	id := filepath.Base(dir)
	going, own, ends := map[string]bool{}, map[string]*Conversed{}, map[string]int{}
	err := lines(dir, conversationLog, func(_ int, l *struct {
		Turn, Response, Ended string
		Begun                 bool
	}) error {
		switch {
		case l.Response != "":
			if other := turns[l.Turn]; other != "" && other != l.Response {
				return fmt.Errorf("the turn %s has the responses %s and %s", l.Turn, other, l.Response)
			}
			if other := c.Responses[l.Response]; other != nil && other.Session != id {
				return fmt.Errorf("the response %s is also in %s", l.Response, other.Session)
			}
			turns[l.Turn] = l.Response
			own[l.Turn] = &Conversed{Session: id, Turn: l.Turn, dir: filepath.Join(dir, "session", "output", "turns", l.Turn),
				state: filepath.Join(dir, "session", "state")}
			c.Responses[l.Response] = own[l.Turn]
		case l.Turn != "":
			going[l.Turn] = true
		case l.Ended != "":
			delete(going, l.Ended)
			if !l.Begun { // it may be asked for once more
				return nil
			}
			ends[l.Ended]++
		}
		return nil
	})
	if info, statErr := os.Stat(filepath.Join(dir, conversationLog)); errors.Is(statErr, fs.ErrNotExist) ||
		statErr == nil && info.Size() == 0 { // nothing was asked of it yet
		return nil
	}
	for turn := range going {
		c.Going = append(c.Going, id+" "+turn)
	}
	return errors.Join(err, countEnds(own, ends))
}

// countEnds checks that each turn of a session with an end has one.
func countEnds(own map[string]*Conversed, ends map[string]int) (err error) {
	for turn, n := range ends {
		switch t := own[turn]; {
		case t == nil:
			err = errors.Join(err, fmt.Errorf("the turn %s has an end and no response", turn))
		case n != 1:
			err = errors.Join(err, fmt.Errorf("the turn %s has %d ends in %s", turn, n, conversationLog))
		default:
			t.ends = n
		}
	}
	return err
}

// readEffects reads the lines that the commands of a session wrote to the file ran, from its tree or, after its end,
// from its patch.
func (c *Conversations) readEffects(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, "tree", "ran"))
	prefix := ""
	if errors.Is(err, fs.ErrNotExist) {
		prefix = "+key-"
		data, err = os.ReadFile(filepath.Join(dir, "change", "diff.patch"))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for text := range bytes.Lines(data) {
		line := strings.TrimSpace(string(text))
		if !strings.HasPrefix(line, prefix) {
			continue
		}
		line = strings.TrimPrefix(line, "+")
		if c.Effects[line] {
			return fmt.Errorf("the command %q ran twice", line)
		}
		c.Effects[line] = true
	}
	return nil
}

// Stored returns the stored events of a response, which is over: it has one end, in the log of its session, in its
// record, and in its stream.
func (c *Conversations) Stored(id string) ([]byte, error) {
	t := c.Responses[id]
	if t == nil {
		return nil, fmt.Errorf("no session has the response %s", id)
	}
	if t.ends != 1 {
		return nil, fmt.Errorf("the response %s has %d ends in the log of its session", id, t.ends)
	}
	events, err := os.ReadFile(filepath.Join(t.dir, eventsFile))
	if err == nil {
		err = conform.CheckStream(events, stream.NDJSON)
	}
	if err == nil {
		err = errors.Join(Ended(t.dir), Numbered(t.dir), Journal(t.dir), Facts(t.dir))
	}
	return events, err
}

// Settled checks that no agentd of a session holds an open turn.
func (c *Conversations) Settled() error {
	var states []string
	for _, t := range c.Responses {
		states = append(states, t.state)
	}
	slices.Sort(states)
	for _, dir := range slices.Compact(states) {
		if err := Settled(dir); err != nil {
			return fmt.Errorf("%s: %w", dir, err)
		}
	}
	return nil
}
