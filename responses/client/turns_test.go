package client_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"holon/responses"
	"holon/responses/turns"
	"holon/test/expect"
)

func TestInput(t *testing.T) {
	in := turns.NewInput{ID: "msg_1", Text: "stop <that>"}.Input()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /turns/{id}/input", func(w http.ResponseWriter, r *http.Request) {
		var said turns.NewInput
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil || said.Text != "stop <that>" {
			t.Errorf("sent %+v, %v", said, err)
		}
		switch r.PathValue("id") {
		case "turn_1":
			answer(200, "application/json", encode(t, in))(w, r)
		case "turn_2":
			answer(409, "application/json", (&responses.Error{Type: responses.TypeInvalidRequest,
				Code: responses.CodeTurnEnded, Message: "over"}).Envelope())(w, r)
		default:
			answer(200, "application/json", []byte(`{"id":"msg_1","digest":"x"}`))(w, r)
		}
	})
	c := serve(t, mux)
	if got, err := c.Input(t.Context(), "turn_1", "msg_1", "stop <that>"); err != nil || got != in {
		t.Errorf("Input = %+v, %v", got, err)
	}
	for _, c2 := range []struct{ turn, id, text, code string }{
		{"turn_2", "msg_1", "stop <that>", responses.CodeTurnEnded},
		{"turn_3", "msg_1", "stop <that>", responses.CodeServerError},
		{"turn_1", "msg_2", "stop <that>", responses.CodeServerError}, // answered about another
		{"../x", "msg_1", "stop <that>", responses.CodeInvalidValue},
		{"turn_1", "a/b", "stop <that>", responses.CodeInvalidValue},
		{"turn_1", "msg_1", " \n", responses.CodeMissingParameter},
		{"turn_1", "msg_1", strings.Repeat("x", turns.MaxInputText+1), responses.CodeInvalidValue},
	} {
		_, err := c.Input(t.Context(), c2.turn, c2.id, c2.text)
		isError(t, err, c2.code)
	}
}

func encode(t *testing.T, v any) []byte {
	t.Helper()
	b, err := json.Marshal(v)
	expect.NoError(t, err)
	return b
}

func TestHealthAndTurn(t *testing.T) {
	h := turns.Health{Status: turns.HealthDraining, Version: "v1", Engine: turns.EngineAgentd, Instance: "i1"}
	resp := response()
	rec := turns.NewRecord("sess_1", "turn_1", &resp, "d", "i1", "v1", time.Unix(1, 0))
	hb, _ := json.Marshal(h)
	rb, _ := rec.Encode()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /health", answer(503, "application/json", hb))
	mux.HandleFunc("GET /turns/turn_1", answer(200, "application/json", rb))
	mux.HandleFunc("GET /turns/turn_2", answer(200, "application/json", []byte(`{"schema":"x"}`)))
	mux.HandleFunc("GET /turns/turn_3",
		answer(404, "application/json", responses.NotFound("turn_id", responses.CodeTurnNotFound,
			"no turn").Envelope()))
	c := serve(t, mux)
	if got, err := c.Health(t.Context()); err != nil || got.Status != turns.HealthDraining {
		t.Errorf("Health = %+v, %v", got, err)
	}
	if got, err := c.Turn(t.Context(), "turn_1"); err != nil || got.TurnID != "turn_1" {
		t.Errorf("Turn = %+v, %v", got, err)
	}
	_, err := c.Turn(t.Context(), "turn_2")
	isError(t, err, responses.CodeServerError)
	_, err = c.Turn(t.Context(), "turn_3")
	isError(t, err, responses.CodeTurnNotFound)
	_, err = c.Turn(t.Context(), "../health")
	isError(t, err, responses.CodeInvalidValue)
	other := serve(t, answer(500, "application/json", responses.Internal("broken", nil).Envelope()))
	if _, err := other.Health(t.Context()); err == nil || err.Error() != "broken" {
		t.Errorf("Health of a broken server: %v", err)
	}
}
