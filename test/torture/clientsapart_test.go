package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"holon/test/buckettest"
	"holon/test/expect"
	"holon/test/load"
	"holon/test/postgrestest"
)

// talk is what a session does on its way: each turn is only played where the conversation has those before.
const talk = `turns:
  - rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: 'echo one >> ran'}}]}, {text: first}]
  - rounds: [{text: second}]
  - rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: 'test ! -e ran && echo three >> ran'}}]}, {text: third}]
  - rounds: [{calls: [{tool: ExecCommand, arguments: {cmd: 'test "$(cat ran)" = three'}}]}, {text: fourth}]
`

// talker is a program that speaks Open Responses to one of several holon serve.
type talker struct {
	*testing.T
	caller
	model string
}

// Two holon serve with homes of their own share a ledger and a bucket. What clients said to one before it was killed,
// the other one has: a response is continued and read, sessions are listed, closed and brought back by the first one.
func TestClientsApart(t *testing.T) {
	if testing.Short() {
		t.Skip("full tier: daemons with containers, a database and a bucket")
	}
	expect.NoError(t, needEngine(t.Context()))
	url, bucket := postgrestest.New(t).Database(t), buckettest.New(t)
	var hosts []*load.Server
	var clients []*talker
	for range 2 {
		dir, err := os.MkdirTemp("", "ca")
		expect.NoError(t, err)
		s, err := load.New(load.Options{Dir: dir, Script: []byte(talk), Env: append(bucket.Env(), "HOLON_LEDGER="+url,
			"HOLON_STORE="+bucket.URL())})
		expect.NoError(t, err)
		c := &talker{t, caller{base: "http://holon/v1", http: load.Unix(s.Socket)}, s.Model()}
		t.Cleanup(func() {
			c.http.CloseIdleConnections()
			s.Close()
			if t.Failed() {
				text, _ := os.ReadFile(filepath.Join(dir, "serve.log")) // it may not have begun
				t.Logf("%s\n%s", dir, text[max(0, len(text)-8<<10):])
			}
			_ = errors.Join(load.RemoveContainers(s.Home), os.RemoveAll(dir))
		})
		hosts, clients = append(hosts, s), append(clients, c)
	}
	one, two := clients[0], clients[1]
	expect.NoError(t, hosts[0].Start(t.Context()))
	first := one.says("", "first")
	second := one.says(first, "second")
	other := one.says("", "first")
	damaged := one.says("", "first")
	expect.NoError(t, os.RemoveAll(filepath.Join(bucket.Bucket(), "files", "sessions", one.list()[0].ID, "objects")))
	expect.NoError(t, hosts[1].Start(t.Context()))
	hosts[0].Kill()

	third := two.says(second, "third")
	fourth := two.says(third, "fourth")
	two.reads(first, http.StatusOK)
	two.reads(damaged, http.StatusNotFound) // which does not hold up the others
	list := two.list()
	expect.Equal(t, "sessions", len(list), 2)
	closed := list[0].ID // the newest one
	for _, s := range list {
		if s.ID == closed {
			continue
		}
		expect.Equal(t, "the files of the first host are missed", s.TreeLostAt != nil, true)
	}
	two.closes(closed)
	expect.NoError(t, hosts[1].End())

	expect.NoError(t, hosts[0].Start(t.Context()))
	one.reads(fourth, http.StatusOK)
	one.reads(other, http.StatusOK)
	for _, s := range one.list() { // with the damaged one, which it has
		expect.Equal(t, s.ID+" is closed", s.Status == "closed", s.ID == closed)
	}
}

// listed is what a list has of a session.
type listed struct {
	ID, Status string
	TreeLostAt *string `json:"tree_lost_at"`
}

func (c *talker) list() []listed {
	c.Helper()
	var list struct{ Data []listed }
	expect.NoError(c, json.Unmarshal(c.eventually(http.MethodGet, "/holon/sessions", "", http.StatusOK), &list))
	return list.Data
}

// says makes a turn, which continues a response unless it is "", and returns its response.
func (c *talker) says(previous, want string) string {
	c.Helper()
	request := map[string]any{"model": c.model, "input": "go on"}
	if previous != "" {
		request["previous_response_id"] = previous
	}
	text, err := json.Marshal(request)
	expect.NoError(c, err)
	var r struct {
		ID, Status string
		Output     []struct{ Content []struct{ Text string } }
	}
	expect.NoError(c, json.Unmarshal(c.eventually(http.MethodPost, "/responses", string(text), http.StatusOK), &r))
	last := r.Output[len(r.Output)-1]
	if r.Status != "completed" || len(last.Content) == 0 || last.Content[0].Text != want {
		c.Fatalf("not %q: %+v", want, r)
	}
	return r.ID
}

func (c *talker) reads(response string, want int) {
	c.Helper()
	c.eventually(http.MethodGet, "/responses/"+response, "", want)
}

func (c *talker) closes(session string) {
	c.Helper()
	c.eventually(http.MethodPost, "/holon/sessions/"+session+"/close", "", http.StatusOK)
}

// eventually makes a request again while no host has the sessions.
func (c *talker) eventually(method, path, body string, want int) (answer []byte) {
	c.Helper()
	expect.NoError(c, load.Eventually(c.Context(), load.Patience, func() error {
		resp, err := c.do(context.WithoutCancel(c.Context()), method, path, nil, []byte(body))
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		answer, err = io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode == http.StatusServiceUnavailable {
			return fmt.Errorf("%s: %s", resp.Status, answer)
		}
		if err == nil && resp.StatusCode != want {
			c.Fatalf("%s %s: %s: %s", method, path, resp.Status, answer)
		}
		return err
	}))
	return answer
}
