// Command gosdk drives a server with OpenAI's Go client and prints one line of
// JSON a check: {"check", "error"}, and {"done": N} at the end. Its source
// compiles with the present release of the client and, with the tag openai381
// and testdata/openai-go-3.8.1.mod, with the old one that reads streams most
// strictly.
//
//	gosdk BASE_URL MODEL [SOCKET]
package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

const patience = time.Minute

type check struct {
	name string
	run  func(ctx context.Context, c *sdk)
}

// sdk is a client and the model that it asks.
type sdk struct {
	openai.Client
	model string
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: gosdk BASE_URL MODEL [SOCKET]")
		os.Exit(2)
	}
	transport := &http.Transport{}
	if len(os.Args) > 3 {
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", os.Args[3])
		}
	}
	c := &sdk{model: os.Args[2], Client: openai.NewClient(option.WithBaseURL(os.Args[1]+"/"),
		option.WithAPIKey("unused"), option.WithHTTPClient(&http.Client{Transport: transport}))}
	list := slices.Concat(answers(), stored(), sockets())
	out := json.NewEncoder(os.Stdout)
	for _, ch := range list {
		line := map[string]string{"check": ch.name}
		if err := ch.play(c); err != nil {
			line["error"] = err.Error()
		}
		ensure(out.Encode(line))
	}
	ensure(out.Encode(map[string]int{"done": len(list)}))
}

// play runs a check, which panics with what it finds wrong.
func (ch check) play(c *sdk) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	ch.run(ctx, c)
	return nil
}

// ensure ends the check with an error, if there is one.
func ensure(err error) {
	if err != nil {
		panic(err)
	}
}

func must[T any](value T, err error) T {
	ensure(err)
	return value
}

// want ends the check unless got is what was wanted.
func want[T comparable](what string, got, wanted T) {
	if got != wanted {
		panic(fmt.Sprintf("%s is %v, want %v", what, got, wanted))
	}
}
