package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"holon/agentd"
	"holon/agentd/config"
	"holon/internal/visible"
	"holon/responses"
)

// debug answers what is asked when something is not as it should be.
func debug(args []string, stdin io.Reader, stdout io.Writer) error {
	what := ""
	if len(args) > 0 {
		what = args[0]
	}
	switch what {
	case "prompt":
		return debugPrompt(args, stdin, stdout)
	case "container":
		return debugContainer(args[1:], stdout)
	}
	return usageError{errors.New("debug: there are only agentd debug prompt and agentd debug container")}
}

// debugContainer prints what a process sees of its container, and that it shares
// a directory with the host if it is given one. It needs no configuration.
func debugContainer(args []string, stdout io.Writer) error {
	fs := flag.NewFlagSet("agentd debug container", flag.ContinueOnError)
	var out strings.Builder
	fs.SetOutput(&out)
	shared := fs.String("exchange", "", "`directory` shared with the host, to pass files both ways")
	if err := fs.Parse(args); errors.Is(err, flag.ErrHelp) {
		fmt.Fprint(stdout, out.String())
		return err
	} else if err != nil || fs.NArg() > 0 {
		return usageError{fmt.Errorf("debug container: %q is not expected; see agentd debug container --help",
			strings.Join(args, " "))}
	}
	return json.NewEncoder(stdout).Encode(agentd.DebugContainer(*shared))
}

// debugPrompt shows what a model would be sent besides the conversation. It
// asks no model and no server.
func debugPrompt(args []string, stdin io.Reader, stdout io.Writer) error {
	cfg := config.Default()
	request, asJSON := "", false
	_, err := configure("debug prompt", &cfg, args[1:], stdout, func(fs *flag.FlagSet) func() config.Problems {
		fs.StringVar(&request, "request", "",
			"`file` with a request, a body of POST /responses; - for standard input; none: a request that says nothing")
		fs.BoolVar(&asJSON, "json", false, "print an object with the sources and the exact text")
		return func() config.Problems { return nil }
	})
	if err != nil {
		return err
	}
	req := &responses.Request{}
	if request != "" {
		if req, err = readRequest(request, stdin); err != nil {
			return err
		}
	}
	report, err := agentd.DebugPrompt(cfg, req)
	if err != nil {
		return err
	}
	if asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(report)
	}
	_, err = io.WriteString(stdout, visible.Text(promptText(report)))
	return err
}

// promptText is the report for a person.
func promptText(r *agentd.PromptReport) string {
	var b strings.Builder
	fmt.Fprintf(&b, "agent home      %s (role %s)\nworkspace       %s\nexecution root  %s\nconfinement     "+
		"%s\ntools           %s\nfingerprint     %s\n\n",
		orNone(r.AgentHome), r.AgentRole, orNone(r.Workspace), orNone(r.ExecutionRoot), r.Confinement,
		strings.Join(r.Tools, ", "), r.Fingerprint)
	table := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "SOURCE\tKIND\tSTABILITY\tBYTES\tDIGEST\tPATH")
	for _, src := range r.Sources {
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\n", src.Name, src.Kind, src.Stability, src.Bytes, src.Digest,
			orNone(src.Path))
	}
	_ = table.Flush() // a strings.Builder takes everything
	for _, root := range r.SkillRoots {
		fmt.Fprintf(&b, "\nskills of the %s in %s: %s", root.Scope, root.Path, orNone(strings.Join(root.Skills, ", ")))
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\nnote: %s", note)
	}
	fmt.Fprintf(&b, "\n\n--- %d bytes ---\n%s\n", r.Bytes, r.Text)
	return b.String()
}

func orNone(s string) string { return cmp.Or(s, "-") }
