package record

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"
	"sync"
	"syscall"

	"holon/internal/durable"
	"holon/internal/redact"
	"holon/responses"
	"holon/responses/turns"
)

// trajectory is the file of a running turn. It belongs to one goroutine.
type trajectory struct {
	store  *Store
	header Header
	file   *os.File
	size   int64            // bytes written
	fresh  []byte           // the lines that are not written yet
	items  []responses.Item // the conversation in the file: history, input, added items
	given  int              // of items: those that the turn began with
	facts  int64            // of the thread, with those of the turn, once that is over
	shown  responses.Items  // the output of the response, once that is there
	sum    hash.Hash        // of what was written, where commands could write it too; nil elsewhere

	names func() redact.Constants // of tools
}

// begin creates the trajectory of a turn with its header, history and input. It is on disk only after sync. Until it
// is published or discarded, the response that it continues is kept.
func (s *Store) begin(h Header, history, input []responses.Item) (*trajectory, error) {
	if err := responses.CheckID("response_id", h.ResponseID); err != nil {
		return nil, err
	}
	first, err := s.pin(h)
	if err != nil {
		return nil, err
	}
	var f *os.File
	if err = s.join(&h, first); err == nil {
		f, err = durable.Create(s.openPath(h.ResponseID), os.O_WRONLY|os.O_APPEND, durable.Private)
	}
	if err != nil {
		s.unpin(h)
		return nil, fmt.Errorf("create trajectory: %w", err)
	}
	t := &trajectory{store: s, header: h, file: f}
	if s.users == nil {
		t.sum = sha256.New()
	}
	t.name(slices.Concat(history, input))
	err = t.encode(line{Header: &h})
	for _, item := range history {
		if err == nil {
			err = t.keep("history", item)
		}
	}
	for _, item := range input {
		if err == nil {
			err = t.keep("input", item)
		}
	}
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return nil, fmt.Errorf("create trajectory: %w", errors.Join(err, t.Discard()))
	}
	t.given = len(t.items)
	return t, nil
}

// name makes the names of the turn's tools, and of those that its conversation has called, known as constants.
func (t *trajectory) name(conversation []responses.Item) {
	t.names = sync.OnceValue(func() redact.Constants {
		names := turns.NamesOfTools(t.header.Response.Tools, conversation)
		return turns.ToolNames(slices.Concat(t.header.ToolNames, names))
	})
}

// clean returns JSON of the turn without known secrets: data itself where there is none.
func (t *trajectory) clean(data []byte) []byte {
	if t.store.secrets.Empty() {
		return data
	}
	return t.store.secrets.JSON(data, t.store.words, t.names())
}

// sync makes what was written durable, and the name of the file with it: the file systems of Linux commit the names
// of a new file together with its content.
func (t *trajectory) sync() error {
	if err := t.file.Sync(); err != nil {
		return fmt.Errorf("sync trajectory: %w", err)
	}
	return nil
}

// Started records durably that a tool call is about to run. If the process dies before Add, the chain shows the call
// as interrupted: it may have had effects and must not be run again.
func (t *trajectory) Started(call *responses.ToolCall) error {
	err := t.encodeItem("started", call)
	if err == nil {
		err = t.write()
	}
	if err == nil {
		err = t.sync()
	}
	if err != nil {
		return fmt.Errorf("record tool call: %w", err)
	}
	return nil
}

// Add records an item that the turn produced. It becomes durable with the
// next Started or Commit.
func (t *trajectory) Add(item responses.Item) error {
	err := t.keep("item", item)
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return fmt.Errorf("record item: %w", err)
	}
	return nil
}

// Finish appends the final response. Once it is durable, a crash leaves a
// trajectory that recovery can complete without guessing; Publish commits it.
func (t *trajectory) Finish(resp responses.Response) error {
	var err error
	t.shown = resp.Output
	if t.facts > 0 {
		err = t.encode(line{Facts: t.facts})
	}
	if err == nil {
		err = t.line("response", func(dst []byte) ([]byte, error) { return t.concealed(dst, resp) })
	}
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return fmt.Errorf("record final response: %w", err)
	}
	return nil
}

// concealed appends a response as others than the model read it.
func (t *trajectory) concealed(dst []byte, resp responses.Response) ([]byte, error) {
	if t.store.hidden.Empty() {
		return resp.AppendJSON(dst)
	}
	data, err := resp.AppendJSON(nil)
	return append(dst, t.store.Conceal(data, t.names())...), err
}

// Publish moves a finished trajectory to where chains find it, or removes it
// when the response is not to be stored, or a command changed it meanwhile.
func (t *trajectory) Publish(store bool) error {
	if !store || !t.unchanged() {
		return t.Discard()
	}
	s, id := t.store, t.header.ResponseID
	if err := syscall.Rename(s.openPath(id), s.donePath(id)); err != nil {
		return fmt.Errorf("commit response: %w", errors.Join(err, t.file.Close()))
	}
	s.published(t)
	return t.file.Close()
}

// unchanged reports whether the file has what was written.
func (t *trajectory) unchanged() bool {
	if t.sum == nil {
		return true
	}
	file, err := os.OpenFile(t.store.openPath(t.header.ResponseID), os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	is := sha256.New()
	_, err = io.Copy(is, file)
	return err == nil && bytes.Equal(is.Sum(nil), t.sum.Sum(nil))
}

// published makes a committed response known to chains, retention and
// references.
func (s *Store) published(t *trajectory) {
	h := t.header
	s.cache.extend(h.PreviousResponseID,
		link{id: h.ResponseID, last: last{Thread: Thread{h.ThreadID, t.facts}, session: h.SessionID, turn: h.TurnID},
			items: t.items, bytes: t.size + itemOverhead*int64(len(t.items))})
	s.unpin(h)
	c := s.catalog
	c.mu.Lock()
	defer c.mu.Unlock()
	c.add(h.ResponseID, h, t.size)
	c.indexAll(h.ResponseID, t.items[:t.given], t.items[t.given:], t.shown)
}

// Close releases the file of a trajectory that stays open on disk.
func (t *trajectory) Close() error { return t.file.Close() }

// Discard removes the trajectory.
func (t *trajectory) Discard() error {
	t.store.unpin(t.header)
	return errors.Join(t.file.Close(), os.Remove(t.store.openPath(t.header.ResponseID)))
}

// keep encodes an item that belongs to the conversation.
func (t *trajectory) keep(key string, item responses.Item) error {
	if err := t.encodeItem(key, item); err != nil {
		return err
	}
	t.items = append(t.items, item)
	return nil
}

func (t *trajectory) encode(l line) error {
	start := len(t.fresh)
	buf := bytes.NewBuffer(t.fresh)
	enc := json.NewEncoder(buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return err
	}
	t.fresh = buf.Bytes()
	t.scrub(start)
	return nil
}

// encodeItem adds a line that holds only an item, under the key of line that names
// its part. It is made by hand: encoding/json would read each item three times.
func (t *trajectory) encodeItem(key string, item responses.Item) error {
	return t.line(key, func(dst []byte) ([]byte, error) { return responses.AppendItem(dst, item) })
}

// line adds a line with one key, whose value is appended by value.
func (t *trajectory) line(key string, value func(dst []byte) ([]byte, error)) error {
	start := len(t.fresh)
	dst, err := value(append(append(append(t.fresh, `{"`...), key...), `":`...))
	if err != nil {
		return err
	}
	t.fresh = append(dst, '}', '\n')
	t.scrub(start)
	return nil
}

// scrub takes known secrets out of the lines of fresh from start on.
func (t *trajectory) scrub(start int) {
	if !t.store.secrets.Empty() {
		t.fresh = append(t.fresh[:start], t.clean(t.fresh[start:])...) // often onto itself
	}
}

// write hands the encoded lines to the kernel in one call.
func (t *trajectory) write() error {
	n, err := t.file.Write(t.fresh)
	if t.sum != nil {
		t.sum.Write(t.fresh[:n])
	}
	t.size += int64(n)
	if t.fresh = t.fresh[:0]; cap(t.fresh) > maxWaiting {
		t.fresh = nil // one huge input must not pin its buffer for the whole turn
	}
	return err
}
