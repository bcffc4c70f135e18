package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
)

// relay does what no agent server can leave out of a streamed turn: take the
// request, make a turn directory with an event log, ask the model, understand
// each event, number it anew, and send it on once it is durable. It flushes
// whenever the model has nothing more waiting: one fdatasync and one write.
type relay struct {
	dir    string // turn directories, made in order
	model  string // URL of the model
	turns  atomic.Int64
	client http.Client
}

func newRelay(dir, model string) http.Handler {
	r := &relay{dir: dir, model: model}
	r.client.Transport = &http.Transport{MaxIdleConnsPerHost: 256, DisableCompression: true, ReadBufferSize: 64 << 10}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", ok)
	mux.HandleFunc("POST /responses", r.create)
	return mux
}

func (r *relay) create(w http.ResponseWriter, req *http.Request) {
	if err := r.turn(w, req); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
	}
}

func (r *relay) turn(w http.ResponseWriter, req *http.Request) error {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return err
	}
	var request struct {
		Model  string          `json:"model"`
		Input  json.RawMessage `json:"input"`
		Stream bool            `json:"stream"`
	}
	if err := json.Unmarshal(body, &request); err != nil {
		return err
	}
	log, err := r.newLog()
	if err != nil {
		return err
	}
	defer log.Close()
	asked, err := http.NewRequestWithContext(req.Context(), http.MethodPost, r.model, bytes.NewReader(body))
	if err != nil {
		return err
	}
	asked.Header.Set("Content-Type", "application/json")
	answered, err := r.client.Do(asked)
	if err != nil {
		return err
	}
	defer answered.Body.Close()
	if answered.StatusCode != http.StatusOK {
		return fmt.Errorf("the model answers %s", answered.Status)
	}
	if !request.Stream {
		return r.whole(w, log, answered.Body)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	out := &relayed{log: log, client: w, control: http.NewResponseController(w)}
	return out.all(answered.Body)
}

// whole passes an answer on that comes in one piece.
func (r *relay) whole(w http.ResponseWriter, log *os.File, body io.Reader) error {
	var response object
	if err := json.NewDecoder(body).Decode(&response); err != nil {
		return err
	}
	data := append(encoded(response), '\n')
	if _, err := log.Write(data); err != nil {
		return err
	}
	if err := syscall.Fdatasync(int(log.Fd())); err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	_, err := w.Write(data)
	return err
}

func (r *relay) newLog() (*os.File, error) {
	dir := filepath.Join(r.dir, strconv.FormatInt(r.turns.Add(1), 10))
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, "events.ndjson"), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
}

// event holds the fields of all events that a text answer has.
type event struct {
	Type         string          `json:"type"`
	Sequence     int             `json:"sequence_number"`
	Response     json.RawMessage `json:"response,omitempty"`
	OutputIndex  *int            `json:"output_index,omitempty"`
	ItemID       string          `json:"item_id,omitempty"`
	ContentIndex *int            `json:"content_index,omitempty"`
	Item         json.RawMessage `json:"item,omitempty"`
	Part         json.RawMessage `json:"part,omitempty"`
	Delta        *string         `json:"delta,omitempty"`
	Text         *string         `json:"text,omitempty"`
	Logprobs     json.RawMessage `json:"logprobs,omitempty"`
}

// relayed is the event sequence on its way out.
type relayed struct {
	log     *os.File
	client  http.ResponseWriter
	control *http.ResponseController
	next    int
	lines   []byte // for the log
	frames  []byte // for the client
}

func (o *relayed) all(body io.Reader) error {
	in := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && data[0] == '{' {
			if err := o.add(data); err != nil {
				return err
			}
		}
		if in.Buffered() == 0 || len(o.frames) > 256<<10 || err != nil {
			if err := o.flush(); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (o *relayed) add(data []byte) error {
	var ev event
	if err := json.Unmarshal(data, &ev); err != nil {
		return err
	}
	ev.Sequence = o.next
	o.next++
	encoded, err := json.Marshal(&ev)
	if err != nil {
		return err
	}
	o.lines = append(append(o.lines, encoded...), '\n')
	o.frames = fmt.Appendf(o.frames, "event: %s\ndata: %s\n\n", ev.Type, encoded)
	return nil
}

// flush makes what was collected durable and then sends it.
func (o *relayed) flush() error {
	if len(o.lines) == 0 {
		return nil
	}
	if _, err := o.log.Write(o.lines); err != nil {
		return err
	}
	if err := syscall.Fdatasync(int(o.log.Fd())); err != nil {
		return err
	}
	if _, err := o.client.Write(o.frames); err != nil {
		return err
	}
	o.lines, o.frames = o.lines[:0], o.frames[:0]
	return o.control.Flush()
}
