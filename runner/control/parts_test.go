package control_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses"
	"holon/runner/control"
	"holon/runner/control/wire"
	"holon/state"
	"holon/state/ledger"
	"holon/test/expect"
)

const (
	pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
	image = `{"type":"input_image","image_url":"data:image/png;base64,` + pixel + `"}`
)

func filePart(name, data string) string {
	return fmt.Sprintf(`{"type":"input_file","filename":%q,"file_data":"data:application/pdf;base64,%s"}`, name,
		base64.StdEncoding.EncodeToString([]byte(data)))
}

// A prompt and a submitted turn take text, pictures and files alike: all files are in the agent's home, the text of the
// message names them, and the request of the turn has the pictures, also one that came as a file.
func TestPartsOfPrompts(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	parts := `"text":"look","parts":[{"type":"input_text","text":"closely"},` + image + `,` +
		filePart("a.pdf", "%PDF-") + `,` +
		strings.Replace(filePart("p.png", ""), "application/pdf;base64,", "image/png;base64,"+pixel, 1) + `]`
	var ids []string
	var sent struct {
		MessageID string `json:"message_id"`
		Result    struct {
			ID string `json:"queued_turn_id"`
		} `json:"result"`
	}
	for _, at := range []string{"/control/agents/main/prompt", "/runtime/commands/submit_turn"} {
		body := "{" + parts + "}"
		if strings.HasSuffix(at, "turn") {
			body = `{"command_id":"c",` + parts + "}"
		}
		a := r.ask(d, post(at, body))
		expect.Equal(t, at, a.status, 200)
		expect.NoError(t, json.Unmarshal([]byte(a.body), &sent))
		ids = append(ids, sent.MessageID+sent.Result.ID)
		sent.MessageID = ""
	}
	for _, id := range ids {
		r.look(func(v ledger.View) error {
			m, err := v.Message(id)
			expect.NoError(t, err)
			text, rest, _ := strings.Cut(m.Body.Text, "\n\n[file] ")
			expect.Equal(t, "text", text, "look\n\nclosely")
			var names []string
			for line := range strings.SplitSeq("[file] "+rest, "\n\n") {
				at, _, _ := strings.Cut(strings.TrimPrefix(line, "[file] agent_home/"), " ")
				_, err := os.Stat(filepath.Join(r.home, at))
				expect.NoError(t, err)
				names = append(names, filepath.Base(at))
			}
			expect.Equal(t, "files", strings.Join(names, " "), "picture.png a.pdf p.png")
			req, err := responses.DecodeRequest(m.Request)
			expect.NoError(t, err)
			content := req.Input[0].(*responses.Message).Content
			if len(content) != 2 || !strings.HasSuffix(content[0].ImageURL, pixel) || content[1].ImageURL != content[0].ImageURL {
				t.Errorf("the request has the parts %+v, want both pictures", content)
			}
			return nil
		})
	}
	expect.Equal(t, "plain text", r.ask(d, post("/control/agents/main/prompt", `{"text":"x"}`)).status, 200)
}

// A request that is repeated is the message that it was, also when the agent changed its file meanwhile. Another
// request with the same file then brings it again.
func TestPartsAgain(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	send := func(key string) (m ledger.Message, replayed bool) {
		t.Helper()
		q := post("/control/agents/main/prompt", `{"parts":[`+filePart("a.pdf", "%PDF-")+`]}`)
		q.header = map[string]string{"Idempotency-Key": key}
		a := r.ask(d, q)
		expect.Equal(t, "status of "+key, a.status, 200)
		var sent wire.Enqueued
		expect.NoError(t, json.Unmarshal([]byte(a.body), &sent))
		r.look(func(v ledger.View) (err error) {
			m, err = v.Message(sent.MessageID)
			return err
		})
		return m, sent.Replayed
	}
	first, _ := send("one")
	at, _, _ := strings.Cut(strings.TrimPrefix(first.Body.Text, "[file] agent_home/"), " ")
	expect.NoError(t, os.WriteFile(filepath.Join(r.home, at), []byte("mine"), 0o600))
	again, replayed := send("one")
	expect.Equal(t, "a repeated request", again.ID, first.ID)
	expect.Equal(t, "replayed", replayed, true)
	other, _ := send("two")
	expect.Equal(t, "text", other.Body.Text, strings.Replace(first.Body.Text, "a.pdf", "a-2.pdf", 1))
	again, replayed = send("two")
	expect.Equal(t, "a repeated request", again.ID, other.ID)
	expect.Equal(t, "replayed", replayed, true)
	files, err := os.ReadDir(filepath.Dir(filepath.Join(r.home, at)))
	expect.NoError(t, err)
	expect.Equal(t, "files", len(files), 2)
}

func TestRefusedParts(t *testing.T) {
	t.Parallel()
	r := newRig(t, control.Limits{}, tcp())
	d := r.described()
	picture := func(url string) string { return `{"type":"input_image","image_url":"` + url + `"}` }
	for parts, want := range map[string]string{
		`{"type":"input_text","text":" "}`:                    "missing_field text",
		`{"type":"input_video"}`:                              "invalid_value parts[0].type",
		`{"type":"input_image"}`:                              "missing_field parts[0].image_url",
		filePart("", "x"):                                     "missing_field parts[0].filename",
		image + `,` + filePart("a/b", ""):                     "invalid_value parts[1].filename",
		filePart("..", "x"):                                   "invalid_value parts[0].filename",
		filePart("a\nb", "x"):                                 "invalid_value parts[0].filename",
		picture("https://example.org/a.png"):                  "invalid_value parts[0].image_url",
		picture("data:image/png;base64,JVBERi0="):             "invalid_value parts[0].image_url",
		strings.Replace(filePart("a", "x"), "base64,", "", 1): "invalid_value parts[0].file_data",
		strings.Replace(filePart("a", "x"), "64,", "64,?", 1): "invalid_value parts[0].file_data",
		strings.Repeat(image+",", 32) + image:                 "invalid_value parts",
	} {
		body := `"parts":[` + parts + `]`
		a := r.ask(d, post("/control/agents/main/prompt", "{"+body+"}"))
		expect.Equal(t, body[:min(len(body), 90)], string(a.failure.Code)+" "+a.failure.Param, want)
	}
	a := r.ask(d, post("/control/agents/main/prompt", `{"text":" "}`))
	expect.Equal(t, "no text", string(a.failure.Code)+" "+a.failure.Param, "missing_field text")
	a = r.ask(d, post("/control/agents/none/prompt", `{"parts":[`+image+`]}`))
	expect.Equal(t, "no such agent", a.failure.Code, state.Code(ledger.CodeNotFound))
}
