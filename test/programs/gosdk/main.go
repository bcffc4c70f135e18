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
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
)

// patience bounds one check.
const patience = time.Minute

type check struct {
	name string
	run  func(ctx context.Context, c *sdk) error
}

// sdk is a client and the model that it asks.
type sdk struct {
	openai.Client
	model  string
	socket string
	base   string
}

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: gosdk BASE_URL MODEL [SOCKET]")
		os.Exit(2)
	}
	c := &sdk{base: os.Args[1], model: os.Args[2]}
	transport := &http.Transport{}
	if len(os.Args) > 3 {
		c.socket = os.Args[3]
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", c.socket)
		}
	}
	c.Client = openai.NewClient(option.WithBaseURL(c.base+"/"), option.WithAPIKey("unused"),
		option.WithHTTPClient(&http.Client{Transport: transport}))
	list := append(append(answers(), stored()...), sockets()...)
	out := json.NewEncoder(os.Stdout)
	for _, ch := range list {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		line := map[string]string{"check": ch.name}
		if err := ch.run(ctx, c); err != nil {
			line["error"] = err.Error()
		}
		cancel()
		if err := out.Encode(line); err != nil {
			os.Exit(1)
		}
	}
	if err := out.Encode(map[string]int{"done": len(list)}); err != nil {
		os.Exit(1)
	}
}

// want returns an error unless got is what was wanted.
func want[T comparable](what string, got, wanted T) error {
	if got == wanted {
		return nil
	}
	return fmt.Errorf("%s is %v, want %v", what, got, wanted)
}
