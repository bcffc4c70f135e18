package agentd_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"holon/responses"
	"holon/test/expect"
)

// Messages that come while a turn runs are answered in their order, and those
// that are too many are refused in theirs.
func TestSocketQueue(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	w := h.dial()
	w.create(`"input":"first"`)
	h.gate.wait(t, 1)
	const more = 20
	for i := range more {
		w.create(fmt.Sprintf(`"model":%q,"input":"x","metadata":{"n":"%d"}`, ref, i))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	go func() { _, _ = h.try(ctx, http.MethodGet, "/health", "") }() // the server is busy and still answers
	first := make(chan *responses.Response, 1)
	go func() {
		_, resp := w.turn()
		first <- resp
	}()
	if err := w.conn.Ping(ctx); err != nil { // answered when all messages before it were read
		t.Fatal(err)
	}
	h.gate.release <- struct{}{}
	if resp := <-first; resp.OutputText() != "Working. Done." {
		t.Errorf("the first is %q", resp.OutputText())
	}
	served := 0
	for i := range more {
		data := w.frame()
		ev, err := responses.DecodeEvent(data)
		expect.NoError(t, err)
		if ev.Type == responses.EventError {
			if ev.Error.Code != responses.CodeQueueFull {
				t.Errorf("refused: %s", data)
			}
			continue
		}
		if got := ev.Response.Metadata["n"]; got != fmt.Sprint(i) {
			t.Errorf("answer %d is that of message %s", i, got)
		}
		served++
		w.turn()
	}
	if served != 16 {
		t.Errorf("%d of %d messages had room", served, more)
	}
	w.create(`"model":"` + ref + `","input":"x"`)
	w.turn()
}

// A client that never stops asking is cut off.
func TestSocketFlood(t *testing.T) {
	t.Parallel()
	h := start(t)
	w := h.dial()
	w.create(`"input":"first"`)
	h.gate.wait(t, 1)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 200 {
		if w.conn.Write(ctx, websocket.MessageText, []byte(`{}`)) != nil {
			break
		}
	}
	for {
		if _, _, err := w.conn.Read(ctx); err != nil {
			if code := websocket.CloseStatus(err); code != websocket.StatusPolicyViolation {
				t.Errorf("ended with %d: %v", code, err)
			}
			break
		}
	}
	close(h.gate.release)
}

func TestSocketTooLarge(t *testing.T) {
	if testing.Short() {
		t.Skip("the full tier: 64 MiB in small reads take minutes on a busy machine")
	}
	t.Parallel()
	h := start(t)
	conn := h.upgrade(t)
	expect.NoError(t, conn.SetDeadline(time.Now().Add(patience)))
	// A frame with a mask of zeros: what a client's library does to each byte takes longer than the rest.
	head := binary.BigEndian.AppendUint64([]byte{0x81, 0x80 | 127}, responses.MaxRequest+1)
	if _, err := conn.Write(append(head, 0, 0, 0, 0)); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for range responses.MaxRequest >> 20 {
		if _, err := conn.Write(chunk); err != nil {
			t.Fatalf("a message that is not too large yet: %v", err)
		}
	}
	if _, err := conn.Write(chunk[:1]); err != nil {
		t.Fatal(err)
	}
	answer, _ := io.ReadAll(conn) // it ends with a reset, since the server does not read on
	want := binary.BigEndian.AppendUint16(nil, uint16(websocket.StatusMessageTooBig))
	if len(answer) < 4 || answer[0] != 0x88 || !bytes.Equal(answer[2:4], want) {
		t.Errorf("%+v", answer)
	}
}

// Frames that break the protocol end their connection and nothing else.
func TestSocketHostileFrames(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	text := func(first byte, length uint64, payload string) string { // a masked frame, with a mask of zeros
		var b bytes.Buffer
		b.Write([]byte{first, 0x80 | 127})
		_ = binary.Write(&b, binary.BigEndian, length) // to memory
		b.WriteString("\x00\x00\x00\x00" + payload)
		return b.String()
	}
	for name, frames := range map[string]string{
		"not masked":           "\x81\x02{}",
		"reserved bits":        "\xf1\x80\x00\x00\x00\x00",
		"compressed":           "\xc1\x80\x00\x00\x00\x00",
		"unknown opcode":       "\x83\x80\x00\x00\x00\x00",
		"a stray continuation": "\x80\x80\x00\x00\x00\x00",
		"a message in another": "\x01\x80\x00\x00\x00\x00\x81\x80\x00\x00\x00\x00",
		"a long ping":          "\x89\xfe\x01\x00\x00\x00\x00\x00" + strings.Repeat("x", 256),
		"a ping in parts":      "\x09\x80\x00\x00\x00\x00",
		"a bad close":          "\x88\x81\x00\x00\x00\x00x",
		"a negative length":    text(0x81, 1<<63, ""),
		"larger than memory":   text(0x81, 1<<62, "x"),
		"not a frame":          "GET / HTTP/1.1\r\n\r\n",
		"half a frame":         "\x81\x85\x00\x00",
	} {
		t.Run(name, func(t *testing.T) {
			conn := h.upgrade(t)
			if _, err := io.WriteString(conn, frames); err != nil {
				t.Fatal(err)
			}
			if name == "half a frame" || name == "larger than memory" {
				return // it waits for the rest, which never comes
			}
			expect.NoError(t, conn.SetReadDeadline(time.Now().Add(patience)))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Error("the connection stays open")
			}
		})
	}
	w := h.dial()
	w.create(`"model":"` + ref + `","input":"x"`)
	w.turn()
}
