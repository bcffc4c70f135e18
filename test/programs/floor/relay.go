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

// create serves a turn. What goes wrong is in the log of the server, and breaks the connection.
func (r *relay) create(w http.ResponseWriter, req *http.Request) {
	body := must(io.ReadAll(req.Body))
	var request struct {
		Model  string          `json:"model"`
		Input  json.RawMessage `json:"input"`
		Stream bool            `json:"stream"`
	}
	check(json.Unmarshal(body, &request))
	dir := filepath.Join(r.dir, strconv.FormatInt(r.turns.Add(1), 10))
	check(os.Mkdir(dir, 0o700))
	log := must(os.OpenFile(filepath.Join(dir, "events.ndjson"), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600))
	defer log.Close()
	asked := must(http.NewRequestWithContext(req.Context(), http.MethodPost, r.model, bytes.NewReader(body)))
	asked.Header.Set("Content-Type", "application/json")
	answered := must(r.client.Do(asked))
	defer answered.Body.Close()
	if answered.StatusCode != http.StatusOK {
		http.Error(w, "the model answers "+answered.Status, http.StatusBadGateway)
		return
	}
	out := &relayed{log: log, client: w, control: http.NewResponseController(w)}
	if request.Stream {
		w.Header().Set("Content-Type", "text/event-stream")
		out.all(answered.Body)
		return
	}
	var response object
	check(json.NewDecoder(answered.Body).Decode(&response))
	out.lines = append(encoded(response), '\n')
	out.stream = out.lines
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(out.lines)))
	out.flush()
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	check(err)
	return value
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

type relayed struct {
	log     *os.File
	client  http.ResponseWriter
	control *http.ResponseController
	next    int
	lines   []byte // for the log
	stream  []byte // for the client
}

func (o *relayed) all(body io.Reader) {
	in := bufio.NewReaderSize(body, 64<<10)
	for {
		line, err := in.ReadBytes('\n')
		if data, ok := bytes.CutPrefix(line, []byte("data: ")); ok && data[0] == '{' {
			o.add(data)
		}
		if in.Buffered() == 0 || len(o.stream) > 256<<10 || err != nil {
			o.flush()
		}
		if errors.Is(err, io.EOF) {
			return
		}
		check(err)
	}
}

func (o *relayed) add(data []byte) {
	var ev event
	check(json.Unmarshal(data, &ev))
	ev.Sequence = o.next
	o.next++
	encoded := must(json.Marshal(&ev))
	o.lines = append(append(o.lines, encoded...), '\n')
	o.stream = fmt.Appendf(o.stream, "event: %s\ndata: %s\n\n", ev.Type, encoded)
}

// flush makes what was collected durable and then sends it.
func (o *relayed) flush() {
	if len(o.lines) == 0 {
		return
	}
	must(o.log.Write(o.lines))
	check(syscall.Fdatasync(int(o.log.Fd())))
	must(o.client.Write(o.stream))
	o.lines, o.stream = o.lines[:0], o.stream[:0]
	check(o.control.Flush())
}
