package client_test

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"holon/responses"
	"holon/responses/stream"
	"holon/responses/turns"
)

// journal is a journal with the events of lines, and a fact after each.
func journal(t *testing.T) (all [][]byte) {
	t.Helper()
	for line := range bytes.Lines(lines(t)) {
		n := int64(len(all))
		fact := turns.Scope{RuntimeID: "rt_1", SessionID: "sess_1", TurnID: "turn_1"}.Warning(turns.Notice{})
		fact.Sequence = n/2 + 1
		all = append(all, turns.AppendEntry(nil, n+1, turns.EntryStream, bytes.TrimSuffix(line, []byte("\n"))),
			turns.AppendEntry(nil, n+2, turns.EntryRuntime, encode(t, fact)))
	}
	return all
}

// broken serves a journal that breaks, or ends early, after some lines of each connection.
func broken(all [][]byte, lines int, ends bool, gets *atomic.Int32) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		gets.Add(1)
		after, err := strconv.Atoi(r.URL.Query().Get("after"))
		if err != nil || r.URL.Path != "/turns/turn_1/events" || r.URL.Query().Get("follow") != "true" {
			answer(404, "application/json", responses.NotFound("turn_id", responses.CodeTurnNotFound,
				"no turn").Envelope())(w, r)
			return
		}
		rest := all[min(after, len(all)):]
		w.Header().Set("Content-Type", stream.TypeNDJSON)
		_, _ = w.Write(bytes.Join(rest[:min(lines, len(rest))], nil))
		_ = http.NewResponseController(w).Flush()
		if lines < len(rest) && !ends {
			panic(http.ErrAbortHandler)
		}
	})
}

// A journal is taken up where the connection broke, each entry comes once, and in order.
func TestEntriesTakeUpABrokenJournal(t *testing.T) {
	all := journal(t)
	for _, ends := range []bool{false, true} {
		for lines := 1; lines <= len(all); lines++ {
			var gets atomic.Int32
			c := serve(t, broken(all, lines, ends, &gets))
			next, over := int64(1), false
			for e, err := range c.Entries(t.Context(), "turn_1", true) {
				if err != nil {
					t.Fatalf("%d at a time: %v", lines, err)
				}
				if e.Seq != next || (e.Stream == nil) != (next%2 == 0) {
					t.Fatalf("%d at a time: %+v instead of %d", lines, e, next)
				}
				over = over || e.Stream != nil && responses.Terminal(e.Stream.Type)
				next++
			}
			want := (len(all) + lines - 1) / lines
			if ends && (len(all)-1)%lines == 0 { // a journal that ends with the stream is over
				want, next = int(gets.Load()), int64(len(all))+1
			}
			if !over || next != int64(len(all))+1 || int(gets.Load()) != want {
				t.Errorf("%d at a time: up to %d in %d requests, want %d in %d", lines, next-1, gets.Load(), len(all), want)
			}
		}
	}
}

func TestEntriesGiveUp(t *testing.T) {
	var gets atomic.Int32
	all := journal(t)
	silent := broken(all, 0, false, &gets)
	first := broken(all, 2, false, &gets)
	c := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if gets.Load() == 0 {
			first.ServeHTTP(w, r)
		}
		silent.ServeHTTP(w, r)
	}))
	var last error
	for _, err := range c.Entries(t.Context(), "turn_1", true) {
		last = err
	}
	isError(t, last, responses.CodeServerDisconnected)
	if n := gets.Load(); n < 2 || n > 10 {
		t.Errorf("it was tried %d times", n)
	}
}

// Deltas that are not wanted are left out, by agentd or by the reader, and no entry comes twice.
func TestEntriesWithoutDeltas(t *testing.T) {
	t.Parallel()
	all := journal(t)
	read := func(deltas bool, lines [][]byte) (got, skipped int, last error) {
		c := serve(t, broken(lines, len(lines), false, new(atomic.Int32)))
		for e, err := range c.Entries(t.Context(), "turn_1", deltas) {
			if last = err; err != nil {
				break
			}
			got++
			if e.Stream != nil && strings.HasSuffix(e.Stream.Type, ".delta") {
				skipped++
			}
		}
		return got, skipped, last
	}
	whole, deltas, err := read(true, all)
	if err != nil || whole != len(all) || deltas == 0 {
		t.Fatalf("%d of %d entries with %d deltas: %v", whole, len(all), deltas, err)
	}
	if got, left, err := read(false, all); err != nil || got != whole-deltas || left != 0 {
		t.Errorf("%d entries with %d deltas: %v", got, left, err)
	}
	at := slices.IndexFunc(all, func(line []byte) bool { return bytes.Contains(line, []byte(`.delta"`)) })
	fewer := slices.Delete(slices.Clone(all), at, at+1)
	if got, _, err := read(false, fewer); err != nil || got != whole-deltas {
		t.Errorf("without a delta: %d entries: %v", got, err)
	}
	_, _, err = read(true, fewer)
	isError(t, err, responses.CodeServerError)
	_, _, err = read(false, slices.Insert(slices.Clone(all), 1, all[0]))
	isError(t, err, responses.CodeServerError)
}

func TestHostileEntries(t *testing.T) {
	all := journal(t)
	end := all[len(all)-2]
	for name, lines := range map[string][][]byte{
		"no entry": {[]byte("{}\n")}, "a gap": {all[0], all[2]}, "twice": {all[0], all[0]}, "from the middle": {all[1]},
		"two ends": append(all[:len(all):len(all)], turns.AppendEntry(nil, int64(len(all))+1, turns.EntryStream,
			end[bytes.Index(end, []byte(`"stream":`))+len(`"stream":`):len(end)-2])),
	} {
		var last error
		var gets atomic.Int32
		for _, err := range serve(t, broken(lines, len(lines), false, &gets)).Entries(t.Context(), "turn_1", true) {
			last = err
		}
		if isError(t, last, responses.CodeServerError); t.Failed() {
			t.Fatal(name)
		}
	}
	c := serve(t, broken(nil, 0, false, new(atomic.Int32)))
	for id, code := range map[string]string{"turn_2": responses.CodeTurnNotFound, "a/b": responses.CodeInvalidValue} {
		var last error
		for _, err := range c.Entries(t.Context(), id, true) {
			last = err
		}
		isError(t, last, code)
	}
	failing := fmt.Appendf(nil, `{"type":"error","sequence_number":0,"error":{"type":"server_error","code":%q,"message":"m"}}`,
		responses.CodeDiskFull)
	c = serve(t, broken([][]byte{turns.AppendEntry(nil, 1, turns.EntryStream, failing)}, 1, false, new(atomic.Int32)))
	for _, err := range c.Entries(t.Context(), "turn_1", true) {
		isError(t, err, responses.CodeDiskFull)
		return
	}
	t.Error("an error event was nothing")
}
