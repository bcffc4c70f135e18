// Command conform runs the cases of package conform against any server of the
// Open Responses protocol, all at once, as the official suite does:
//
//	go run ./test/programs/conform --base-url http://127.0.0.1:8080/v1 --model scripted/hello
//	go run ./test/programs/conform --base-url http://agentd/v1 --unix ./agent.sock --only official
//
// Each case is a line on standard output. The exit code is 0 when all passed, 1
// when one did not, and 2 for wrong usage.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"holon/test/conform"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	passed, err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
	case err != nil:
		fmt.Fprintln(os.Stderr, "conform:", err)
		os.Exit(2)
	case !passed:
		os.Exit(1)
	}
}

// run checks the server and reports whether all cases passed.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) (passed bool, err error) {
	fs := flag.NewFlagSet("conform", flag.ContinueOnError)
	fs.SetOutput(stderr)
	var target conform.Target
	fs.StringVar(&target.BaseURL, "base-url", "http://127.0.0.1:8080/v1", "`URL` above /responses")
	fs.StringVar(&target.Socket, "unix", "", "Unix `socket` to reach the server by")
	fs.StringVar(&target.Model, "model", "", "model that answers")
	fs.StringVar(&target.Token, "token", os.Getenv("OPENRESPONSES_API_KEY"), "bearer `token`")
	only := fs.String("only", "", "only these, comma-separated: `ids`, or kinds: official, protocol, service, extension")
	if err := fs.Parse(args); err != nil {
		return false, err
	}
	if fs.NArg() > 0 {
		return false, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	wanted := strings.Split(*only, ",")
	cases := slices.DeleteFunc(conform.Cases(), func(c conform.Case) bool {
		return *only != "" && !slices.Contains(wanted, c.ID) && !slices.Contains(wanted, string(c.Kind))
	})
	if len(cases) == 0 {
		return false, fmt.Errorf("there are no cases %q", *only)
	}
	suite := conform.New(target)
	defer suite.Close()
	return report(stdout, suite.All(ctx, cases)), nil
}

func report(w io.Writer, results []conform.Result) (passed bool) {
	n := 0
	for _, r := range results {
		verdict := "pass"
		if r.Err != nil {
			verdict = "FAIL"
			n++
		}
		fmt.Fprintf(w, "%s %-10s %-45s %s\n", verdict, r.Case.Kind, r.Case.ID, r.Duration.Round(time.Millisecond))
		if r.Err != nil {
			fmt.Fprintf(w, "     %s: %s\n", r.Case.About, strings.ReplaceAll(r.Err.Error(), "\n", "\n     "))
		}
	}
	fmt.Fprintf(w, "%d passed, %d failed\n", len(results)-n, n)
	return n == 0
}
