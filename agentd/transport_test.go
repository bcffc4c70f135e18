package agentd_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"holon/agentd"
	"holon/agentd/config"
	"holon/responses"
	"holon/responses/turns"
	"holon/test/agentclient"
	"holon/test/expect"
)

// raw writes text to a new connection of the socket and reads one answer.
func (h *harness) raw(text string) answer {
	h.t.Helper()
	conn := h.connect()
	defer conn.Close()
	if _, err := io.WriteString(conn, text); err != nil {
		h.t.Fatal(err)
	}
	return h.answerOn(bufio.NewReader(conn))
}

func (h *harness) connect() net.Conn {
	h.t.Helper()
	conn, err := net.Dial("unix", h.cfg.Server.Socket)
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(patience))
	}
	expect.NoError(h.t, err)
	return conn
}

func (h *harness) answerOn(in *bufio.Reader) answer {
	h.t.Helper()
	resp, err := http.ReadResponse(in, nil)
	expect.NoError(h.t, err)
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	expect.NoError(h.t, err)
	return answer{status: resp.StatusCode, header: resp.Header, body: body}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, prefix := range []string{"", "/v1"} {
		for path, allow := range map[string]string{
			"/health": "GET, HEAD, OPTIONS", "/responses/resp_x": "GET, HEAD, DELETE, OPTIONS",
			"/responses/resp_x/cancel":      "POST, OPTIONS",
			"/responses/resp_x/input_items": "GET, HEAD, OPTIONS", "/models": "GET, HEAD, OPTIONS",
			"/models/a/b": "GET, HEAD, OPTIONS", "/shutdown": "POST, OPTIONS",
		} {
			if a := h.do(http.MethodOptions, prefix+path, ""); a.status != http.StatusNoContent ||
				a.header.Get("Allow") != allow || len(a.header.Values("Access-Control-Allow-Origin")) > 0 {
				t.Errorf("%.120q: %d %.300s, %+v", path, a.status, a.body, allow)
			}
			a := h.do(http.MethodPatch, prefix+path, `{}`)
			if e := a.failure(t); a.status != http.StatusMethodNotAllowed || a.header.Get("Allow") != allow ||
				e.Code != responses.CodeMethodNotAllowed || a.header.Get("X-Request-Id") == "" {
				t.Errorf("%.120q: %d %.300s, %+v, %+v", path, a.status, a.body, allow, e)
			}
		}
	}
}

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, prefix := range []string{"", "/v1"} {
		for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodOptions, "BREW"} {
			for _, path := range []string{"/", "/response", "/responses/", "/responses/a/b/c", "/v2/responses",
				"/v1/v1/health"} {
				if a := h.do(method, prefix+path, ""); a.status != http.StatusNotFound &&
					a.status != http.StatusMethodNotAllowed || a.failure(t).Message == "" ||
					a.header.Get("X-Request-Id") == "" {
					t.Errorf("%s %s: %d %s", method, path, a.status, a.body)
				}
			}
		}
	}
}

func TestHead(t *testing.T) {
	t.Parallel()
	h := start(t)
	for _, prefix := range []string{"", "/v1"} {
		if a := h.do(http.MethodHead, prefix+"/health", ""); a.status != http.StatusOK || len(a.body) != 0 ||
			a.header.Get("Content-Type") != "application/json" {
			t.Errorf("HEAD: %d %.300s", a.status, a.body)
		}
		if a := h.do(http.MethodHead, prefix+"/shutdown", ""); a.status != http.StatusMethodNotAllowed {
			t.Errorf("HEAD of a POST: %d", a.status)
		}
	}
	running := h.begin(`{"input":"go","background":true,"holon":{"turn_id":"turn_a"}}`)
	for _, path := range []string{"/responses/" + running.ID + "?stream=true", "/turns/turn_a/events?follow=true"} {
		// it would not return before the turn's end
		if a := h.do(http.MethodHead, path, ""); a.status != http.StatusOK || len(a.body) != 0 {
			t.Errorf("HEAD %s: %d %v", path, a.status, a.header)
		}
	}
	h.gate.release <- struct{}{}
}

// A model is found by its reference in any form, and by its name with the default provider.
func TestModels(t *testing.T) {
	t.Parallel()
	h := start(t)
	for path, id := range map[string]string{"gate/any": "gate/any", "gate%2Fany": "gate/any", "any": "gate/any",
		"scripted/demo": "scripted/demo"} {
		if a := h.do(http.MethodGet, "/v1/models/"+path, ""); a.status != http.StatusOK ||
			!strings.Contains(string(a.body), `"id":"`+id+`"`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	for _, path := range []string{"acme/x", "scripted/none", "%20", "a/../../health", ""} {
		if a := h.do(http.MethodGet, "/models/"+path, ""); a.status != http.StatusNotFound || a.failure(t).Code == "" {
			t.Errorf("%q: %d %s", path, a.status, a.body)
		}
	}
}

// A body that does not come is not waited for, one that comes slowly is read.
func TestSlowBodies(t *testing.T) {
	t.Parallel()
	h := impatient(t, time.Hour, time.Hour, 300*time.Millisecond)
	for name, head := range map[string]string{
		"create": "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: " +
			"application/json\r\nContent-Length: 100\r\n\r\n{",
		"create, in chunks":  "POST /responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"cancel":             "POST /responses/resp_x/cancel HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"get":                "GET /responses/resp_x HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{",
		"expected, not sent": "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			a := h.raw(head)
			if e := a.failure(t); a.status != http.StatusRequestTimeout || e.Code != responses.CodeRequestTimeout ||
				a.header.Get("X-Should-Retry") != "true" {
				t.Errorf("%d %.300s, %+v", a.status, a.body, e)
			}
		})
	}
	t.Run("a body that is not read", func(t *testing.T) {
		conn := h.connect()
		defer conn.Close()
		if _, err := io.WriteString(conn,
			"GET /health HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"); err != nil {
			t.Fatal(err)
		}
		in := bufio.NewReader(conn)
		if a := h.answerOn(in); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
		if _, err := in.ReadByte(); err == nil {
			t.Error("the connection goes on after half a request")
		}
	})
	t.Run("slow but steady", func(t *testing.T) {
		ref := h.scenario("hello", hello)
		body := `{"model":"` + ref + `","input":"` + strings.Repeat("x", 4<<10) + `"}`
		conn := h.connect()
		defer conn.Close()
		fmt.Fprintf(conn, "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"+
			"Content-Length: %d\r\n\r\n", len(body))
		// in all more than the patience for the first bytes
		for part := range slices.Chunk([]byte(body), len(body)/8+1) {
			if _, err := conn.Write(part); err != nil {
				t.Fatal(err)
			}
			time.Sleep(60 * time.Millisecond)
		}
		if a := h.answerOn(bufio.NewReader(conn)); a.status != http.StatusOK {
			t.Errorf("%d %s", a.status, a.body)
		}
	})
}

// A turn may take longer than a body may: the patience ends with the body.
func TestPatienceEndsWithTheBody(t *testing.T) {
	t.Parallel()
	h := impatient(t, time.Hour, time.Hour, 100*time.Millisecond)
	turn := h.later(t.Context(), `{"input":"go","store":false}`) // cancelled when its client seems gone
	h.gate.wait(t, 1)
	// The patience with a body that begins later ends later.
	late := h.raw("POST /responses HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
	late.refused(t, http.StatusRequestTimeout, responses.CodeRequestTimeout)
	h.gate.release <- struct{}{}
	if got := get(t, turn).response(t); got.Status != responses.StatusCompleted {
		t.Errorf("the turn is %s", got.Status)
	}
}

func TestExpectContinue(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	body := `{"model":"` + ref + `","input":"hi"}`
	conn := h.connect()
	defer conn.Close()
	in := bufio.NewReader(conn)
	fmt.Fprintf(conn, "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nExpect: "+
		"100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
	if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("%q %v", line, err)
	}
	if _, err := in.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	if a := h.answerOn(in); a.response(t).Status != responses.StatusCompleted {
		t.Errorf("%d %s", a.status, a.body)
	}
	// A request that is refused by its head is refused before the body is sent.
	for head, status := range map[string]int{
		"Content-Type: text/plain\r\nContent-Length: 10": 415, "Content-Encoding: br\r\nContent-Length: 10": 415,
		"Content-Length: 1000000000000": 413,
	} {
		if a := h.raw("POST /responses HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n" + head +
			"\r\n\r\n"); a.status != status || a.failure(t).Code == "" {
			t.Errorf("%s: %d %s", head, a.status, a.body)
		}
	}
	chunked := fmt.Sprintf("POST /responses HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: "+
		"chunked\r\n\r\n5\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n", body[:5], len(body)-5, body[5:])
	if a := h.raw(chunked); a.response(t).Status != responses.StatusCompleted {
		t.Errorf("in chunks: %d %s", a.status, a.body)
	}
}

// A large file passes client and server; in the full tier the largest that the protocol allows.
func TestLargestInput(t *testing.T) {
	t.Parallel()
	h := start(t)
	ref := h.scenario("hello", hello)
	size := 32 << 20
	if testing.Short() {
		size = 1 << 20
	}
	const head = "data:application/pdf;base64,JVBERi0x" // %PDF-1
	file := head + strings.Repeat("Abc+", (size-len(head))/4)
	message := &responses.Message{Role: responses.RoleUser, Content: []responses.Part{
		{Type: responses.PartInputFile, FileName: "a.pdf", FileData: file}, responses.InputText("Read it.")}}
	c := agentclient.Unix(h.cfg.Server.Socket)
	defer c.Close()
	resp, err := c.Create(t.Context(), responses.NewRequest(ref, message))
	if err != nil || resp.Status != responses.StatusCompleted {
		t.Fatalf("%+v, %v", resp, err)
	}
	var list struct{ Data responses.Items }
	h.see("/responses/"+resp.ID+"/input_items", &list)
	if len(list.Data) != 1 {
		t.Fatalf("%d items are listed", len(list.Data))
	}
	back, ok := list.Data[0].(*responses.Message)
	if !ok || len(back.Content) != 2 {
		t.Fatalf("the item is %.300v, want a message of two parts", list.Data[0])
	}
	if got := back.Content[0].FileData; got != file {
		t.Errorf("the file comes back with %d bytes, want the %d that were sent", len(got), len(file))
	}
}

// Heartbeats keep a silent stream alive, and only where the framing has a way
// to say nothing.
func TestHeartbeats(t *testing.T) {
	t.Parallel()
	h := impatient(t, 20*time.Millisecond, time.Minute, time.Minute)
	begun := h.begin(`{"input":"go","background":true}`)
	silent := h.laterGet("/responses/"+begun.ID+"?stream=true", "application/x-ndjson")
	eventually(t, "the first reader is there", func() bool { return h.server.Clients(h.only(begun.ID)) == 1 })
	resp, err := h.http.Get("http://agentd/responses/" + begun.ID + "?stream=true")
	expect.NoError(t, err)
	defer resp.Body.Close()
	// When the second reader has heard several heartbeats, the first could have heard some.
	var body []byte
	for in := bufio.NewReader(resp.Body); ; {
		line, err := in.ReadBytes('\n')
		if body = append(body, line...); err != nil {
			break
		}
		if bytes.HasSuffix(body, []byte("\n: ping\n: ping\n: ping\n")) {
			select {
			case h.gate.release <- struct{}{}:
			default: // it was released already
			}
		}
	}
	if bytes.Contains(body, []byte(": ping\n\n")) || !bytes.Contains(body, []byte(responses.EventCompleted)) {
		t.Errorf("the stream of server-sent events is\n%s", body)
	}
	other := get(t, silent).body
	if bytes.Contains(other, []byte("ping")) || !bytes.Contains(other, []byte(responses.EventCompleted)) {
		t.Errorf("the stream of JSON lines is\n%s", other)
	}
}

// A reader that stands still is given up; the turn and the other readers go on.
func TestStalledReader(t *testing.T) {
	t.Parallel()
	h := impatient(t, time.Hour, time.Second, time.Minute)
	conn := h.connect()
	defer conn.Close()
	body := `{"model":"flood/some","input":"go","stream":true,"holon":{"turn_id":"turn_a"}}`
	fmt.Fprintf(conn, "POST /responses HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: "+
		"%d\r\n\r\n%s", len(body), body)
	if _, err := io.ReadFull(conn, make([]byte, 1)); err != nil { // it is being served, and now it stands still
		t.Fatal(err)
	}
	eventually(t, "the turn goes on without its reader", func() bool {
		info, err := os.Stat(h.file("turn_a", turns.EventsFile))
		return err == nil && info.Size() > 1<<20 && h.server.Clients("turn_a") == 0
	})
	id := h.record("turn_a").ResponseID
	if got := h.do(http.MethodPost, "/responses/"+id+"/cancel",
		"").response(t); got.Status != responses.StatusCancelled {
		t.Errorf("the turn is %s", got.Status)
	}
	seen, err := io.ReadAll(conn)
	h.stop()
	h = startIn(t, h.dir) // which gives readers on a busy machine the time that they need
	replays := []<-chan answer{h.laterGet("/responses/"+id+"?stream=true", "application/x-ndjson"),
		h.laterGet("/responses/"+id+"?stream=true", "application/x-ndjson")}
	a, b := get(t, replays[0]).body, get(t, replays[1]).body
	if !bytes.Equal(a, b) || len(a) < 1<<20 {
		t.Errorf("the replays have %d and %d bytes", len(a), len(b))
	}
	if len(seen) >= len(a) {
		t.Errorf("a reader that stood still got all %d bytes (%v)", len(seen), err)
	}
}

// one answer on TCP, with the request line and headers as given.
func (h *harness) tcpStatus(text string) answer {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.tcp)
	expect.NoError(h.t, err)
	defer conn.Close()
	expect.NoError(h.t, conn.SetDeadline(time.Now().Add(patience)))
	if _, err := io.WriteString(conn, text); err != nil {
		h.t.Fatal(err)
	}
	return h.answerOn(bufio.NewReader(conn))
}

func TestHostHeaders(t *testing.T) {
	t.Parallel()
	h := start(t, func(c *config.Config, _ *agentd.Parts) { c.Server.Listen = "127.0.0.1:0" })
	get := func(host string, more ...string) answer {
		return h.tcpStatus("GET /health HTTP/1.1\r\nConnection: close\r\nHost: " + host + "\r\n" +
			strings.Join(append(more, ""), "\r\n") + "\r\n")
	}
	for _, host := range []string{"127.0.0.1", "127.0.0.1:80", "127.9.9.9", "localhost", "LocalHost:9", "localhost.",
		"[::1]", "[::1]:9", "[::ffff:127.0.0.1]:9"} {
		if a := get(host); a.status != http.StatusOK {
			t.Errorf("%q: %d %s", host, a.status, a.body)
		}
	}
	for _, host := range []string{"", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
		"evil.example:127", "0.0.0.0", "[::]", "10.0.0.1", "127.1", "2130706433", "0x7f000001", "[::1%25lo]",
		"[fe80::1]", "xlocalhost", "app.localhost"} {
		if a := get(host); a.status != http.StatusForbidden && a.status != http.StatusBadRequest {
			t.Errorf("%q: %d %s", host, a.status, a.body)
		} else if a.status == http.StatusForbidden && (a.failure(t).Param != "Host" ||
			a.header.Get("X-Request-Id") == "") {
			t.Errorf("%q: %v %s", host, a.header, a.body)
		}
	}
	for _, more := range []string{"Origin: null", "Origin: ", "Origin: http://127.0.0.1", "Sec-Fetch-Site: cross-site",
		"Sec-Fetch-Site: same-origin"} {
		if a := get("localhost", more); a.status != http.StatusForbidden ||
			a.failure(t).Code != responses.CodeForbidden {
			t.Errorf("%s: %d %s", more, a.status, a.body)
		}
	}
	if a := get("localhost", "Sec-Fetch-Site: none"); a.status != http.StatusOK {
		t.Errorf("an address that was typed: %d", a.status)
	}
	for name, text := range map[string]string{
		"no host":            "GET /health HTTP/1.0\r\n\r\n",
		"an absolute target": "GET http://evil.example/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
		"an upgrade": "GET /v1/responses HTTP/1.1\r\nHost: evil.example\r\nConnection: Upgrade\r\nUpgrade: " +
			"websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
		"a page's upgrade": "GET /v1/responses HTTP/1.1\r\nHost: localhost\r\nOrigin: " +
			"http://localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: " +
			"13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n",
	} {
		if a := h.tcpStatus(text); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}
