package mcpwire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"

	"holon/test/expect"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

type discard struct{ bytes.Buffer }

func (d *discard) Write(_ context.Context, message []byte) error {
	_, err := d.Buffer.Write(message)
	return err
}

func connect(r io.Reader, limit int) *conn {
	s := &Stream{Reader: r, Writer: new(discard), MaxMessage: limit, Close: func() error { return nil }}
	c, _ := s.Connect(context.Background()) // has no error
	return c.(*conn)
}

// describe says what a message is, for comparison.
func describe(msg jsonrpc.Message, err error) string {
	var large *tooLarge
	switch m := msg.(type) {
	case *jsonrpc.Request:
		return "request " + m.Method
	case *jsonrpc.Response:
		if wire, ok := errors.AsType[*jsonrpc.Error](m.Error); ok && wire.Code == CodeMalformed {
			return "malformed answer"
		}
		if m.Error != nil {
			return "error " + m.Error.Error()
		}
		return "response " + string(m.Result)
	}
	switch {
	case errors.Is(err, io.EOF):
		return "end"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "cut"
	case errors.As(err, &large):
		return "too large"
	}
	return "malformed"
}

func TestRead(t *testing.T) {
	long := strings.Repeat("x", 40_000)
	const answer = `{"jsonrpc":"2.0","id":7,"result":`
	for _, tc := range []struct{ sent, want string }{
		{"", "end"},
		{answer + "1}\n", "response 1, end"},
		{answer + "1}", "response 1, end"},
		{"\uFEFF" + answer + "1}\n", "response 1, end"},
		{answer + "1}\r\n\n  \n" + answer + "2}\n", "response 1, response 2, end"},
		{"Listening on stdio\n\x1b[0m\n" + answer + "1}\n", "response 1, end"},
		{strings.Repeat("noise\n{\"level\":\"info\",\"id\":7}\n", burst) + answer + "1}\n", "response 1, end"},
		{"{not json\n[]\n42\n{\"status\":200}\n{}\n" + answer + "1}\n", "response 1, end"},
		{"{", "cut"},
		{"{\n", "end"},
		{"[" + answer + "1}]\n", "end"},
		{long + "\n" + answer + "1}\n", "response 1, end"},
		{`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"?"}}` + "\n" + answer + "1}\n", "response 1, end"},
		{`{"jsonrpc":"2.0","id":7,"error":"just text"}` + "\n" + answer + "1}\n", "malformed answer, response 1, end"},
		{answer + "{cut}\n" + answer + "1}\n", "malformed answer, response 1, end"},
		{answer + `"` + long + "\"}\n" + answer + "1}\n",
			"error the message has more than 32768 bytes, response 1, end"},
		{`{"result":"` + long + "\",\"id\":7}\n", "too large"},
		{`{"jsonrpc":"2.0","id":7,"method":"x","params":"` + long + "\"}\n" + answer + "1}\n",
			`answered {"jsonrpc":"2.0","id":7,"error":{"code":-32602,"message":"the message has more than 32768 bytes"}}, ` +
				"response 1, end"},
		{`{"id":{"a":1},"x":"` + long + "\"}\n", "too large"},
		{`{"id":true,"x":"` + long + "\"}\n", "too large"},
		{answer + `"` + long, "end"},
		{`{"jsonrpc":"2.0","method":"notifications/progress"}` + "\n" +
			`{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}` + "\n",
			"request notifications/tools/list_changed, end"},
		{`{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n" + `{"jsonrpc":"2.0","id":1,"method":"ping"}` + "\n",
			"request ping, end"},
	} {
		c := connect(strings.NewReader(tc.sent), 32<<10)
		var got []string
		for {
			msg, err := c.Read(t.Context())
			if said := c.stream.Writer.(*discard); said.Len() > 0 {
				got = append(got, "answered "+strings.TrimSpace(said.String()))
				said.Reset()
			}
			got = append(got, describe(msg, err))
			if err != nil {
				break
			}
		}
		expect.Equal(t, fmt.Sprintf("%.80q", tc.sent), strings.Join(got, ", "), tc.want)
	}
}

// An answer with the text of a number as its id is that of the request with the number.
func TestIDsAsText(t *testing.T) {
	for sent, want := range map[string]any{`7`: int64(7), `"7"`: int64(7), `"a7"`: "a7", `"7.5"`: "7.5", `""`: ""} {
		msg, err := connect(strings.NewReader(`{"jsonrpc":"2.0","id":`+sent+`,"result":{}}`+"\n"), 0).Read(t.Context())
		if err != nil || msg.(*jsonrpc.Response).ID.Raw() != want {
			t.Errorf("%s: %v, %v, want %v", sent, msg, err, want)
		}
	}
}

// Requests beyond the bound are not read until others have their answers.
func TestAnswering(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const all = maxAnswering + 5
		var sent strings.Builder
		for i := range all {
			fmt.Fprintf(&sent, `{"jsonrpc":"2.0","id":%d,"method":"ping"}`+"\n", i)
		}
		c := connect(strings.NewReader(sent.String()), 0)
		read := make(chan jsonrpc.ID, all)
		go func() {
			for {
				msg, err := c.Read(t.Context())
				if err != nil {
					return
				}
				read <- msg.(*jsonrpc.Request).ID
			}
		}()
		for answered := range all {
			synctest.Wait()
			if got, want := answered+len(read), min(answered+maxAnswering, all); got != want {
				t.Fatalf("%d were read with %d answered, want %d", got, answered, want)
			}
			expect.NoError(t, c.Write(t.Context(), &jsonrpc.Response{ID: <-read, Result: []byte("{}")}))
		}
	})
}

func FuzzRead(f *testing.F) {
	for _, seed := range []string{"", "{}\n", `{"jsonrpc":"2.0","id":1,"result":{}}` + "\n",
		`{"jsonrpc":"2.0","id":"a","method":"ping"}` + "\n", `{"id":1,"x":"` + strings.Repeat("x", 3000) + "\"}\n",
		"noise\n[1]\n"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		c := connect(bytes.NewReader(sent), 1<<10)
		for n := 0; ; n++ {
			msg, err := c.Read(t.Context())
			if (msg == nil) == (err == nil) {
				t.Fatalf("message %v and error %v", msg, err)
			}
			if err != nil {
				return
			}
			if req, ok := msg.(*jsonrpc.Request); ok && req.ID.IsValid() {
				if err := c.Write(t.Context(), &jsonrpc.Response{ID: req.ID,
					Error: &jsonrpc.Error{Code: 1, Message: "no"}}); err != nil {
					return
				}
			}
			if n > bytes.Count(sent, []byte("\n")) {
				t.Fatalf("%d messages of %d lines", n, bytes.Count(sent, []byte("\n")))
			}
		}
	})
}
