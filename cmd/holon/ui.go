package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"rsc.io/qr"

	"holon/internal/visible"
	"holon/runner/daemon"
)

func newUICommand(streams Streams) *cobra.Command {
	r, printed := &remote{base: base{streams: streams}}, false
	cmd := r.command("ui", "Open the web console", func(ctx context.Context) error {
		return r.ask(ctx, func(ctx context.Context, r *remote) error { return openUI(ctx, r, printed) })
	})
	cmd.Long = `Open the web console of the daemon, which shows its agents and sessions and talks
to them, in this machine's browser. The daemon needs a TCP port, as with
--access local.

The link signs one browser in, once, within five minutes; the browser is the
operator for twelve hours, also across a restart of the daemon.`
	cmd.Example = `  holon ui
  holon ui --print`
	cmd.Flags().BoolVar(&printed, "print", false,
		"print the link, for another browser; on a terminal with a QR code, for a phone")
	return cmd
}

// openUI gets a link into the console and opens or prints it.
func openUI(ctx context.Context, r *remote, printed bool) error {
	login, err := r.UILogin(ctx)
	if err != nil || printed || r.JSON {
		return r.show(login, err, func() error {
			link := visible.OneLine(login.URL, 2000)
			if r.streams.OutTTY {
				code, err := qr.Encode(link, qr.L)
				if err != nil {
					return fmt.Errorf("make a QR code of the link: %w", err)
				}
				fmt.Fprint(r.streams.Out, drawCode(code))
			}
			_, err := fmt.Fprintln(r.streams.Out, link)
			return err
		})
	}
	if err := daemon.Browse(ctx, r.home.Dir(), login.URL); err != nil {
		return err
	}
	r.streams.say("holon: the console opens in a browser; for a link instead: holon ui --print")
	return nil
}

// drawCode draws a QR code with half blocks, dark modules as what is not printed: it is read on dark terminals and, by
// most readers, on light ones as well.
func drawCode(code *qr.Code) string {
	const quiet = 2 // modules around it
	var out strings.Builder
	for y := -quiet; y < code.Size+quiet; y += 2 {
		for x := -quiet; x < code.Size+quiet; x++ {
			out.WriteString([]string{"█", "▄", "▀", " "}[boolBits(code.Black(x, y), code.Black(x, y+1))])
		}
		out.WriteByte('\n')
	}
	return out.String()
}

// boolBits is 1 for the upper, 2 for the lower and 3 for both.
func boolBits(upper, lower bool) (n int) {
	if upper {
		n++
	}
	if lower {
		n += 2
	}
	return n
}
