package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/durable"
)

// newManCommand makes `holon man`, by which make man writes the pages.
func newManCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "man DIRECTORY",
		Short:  "Write manual pages of all commands to a directory",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := countArgs(cmd, args, 1, 1); err != nil {
				return err
			}
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("make the directory of the pages: %w", err)
			}
			return writeManPages(cmd.Root(), args[0])
		},
	}
}

// writeManPages writes the page of a command and those of the commands below it.
func writeManPages(cmd *cobra.Command, dir string) error {
	if cmd.Hidden {
		return nil
	}
	path := filepath.Join(dir, manName(cmd)+".1")
	if err := durable.WriteFile(path, []byte(manPage(cmd)), 0o644); err != nil {
		return fmt.Errorf("write a manual page: %w", err)
	}
	for _, sub := range cmd.Commands() {
		if err := writeManPages(sub, dir); err != nil {
			return err
		}
	}
	return nil
}

func manName(cmd *cobra.Command) string { return strings.ReplaceAll(cmd.CommandPath(), " ", "-") }

// manPage is what helpText says, in the language of man(7).
func manPage(cmd *cobra.Command) string {
	var b strings.Builder
	title := strings.ToUpper(manName(cmd))
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"holon\" \"Holon\"\n.SH NAME\n%s \\- %s\n", roff(title), roff(manName(cmd)),
		roff(cmd.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(useLine(cmd)))
	b.WriteString(".SH DESCRIPTION\n")
	if cmd.Long == "" {
		b.WriteString(roff(cmd.Short) + ".\n")
	}
	manText(&b, cmd.Long)
	often, rare := flagsOf(cmd)
	manFlags(&b, "OPTIONS", often)
	manFlags(&b, "RARELY USED OPTIONS", rare)
	if cmd.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(cmd.Example))
	}
	var also []string
	if cmd.HasParent() {
		also = append(also, manName(cmd.Parent()))
	}
	for _, sub := range cmd.Commands() {
		if !sub.Hidden {
			also = append(also, manName(sub))
		}
	}
	b.WriteString(".SH SEE ALSO\n")
	for i, name := range also {
		comma := map[bool]string{true: ","}[i < len(also)-1]
		fmt.Fprintf(&b, ".BR %s (1)%s\n", roff(name), comma)
	}
	return b.String()
}

// manText writes paragraphs. Lines that are indented stay as they are.
func manText(b *strings.Builder, text string) {
	filled := true
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \t\n")
		plain := !strings.HasPrefix(line, " ") && !strings.HasPrefix(line, "\t")
		if line != "" && plain != filled {
			b.WriteString(map[bool]string{true: ".fi\n", false: ".nf\n"}[plain])
			filled = plain
		}
		if line == "" {
			line = ".PP"
		} else {
			line = roff(line)
		}
		b.WriteString(line + "\n")
	}
	if !filled {
		b.WriteString(".fi\n")
	}
}

func manFlags(b *strings.Builder, heading string, flags *pflag.FlagSet) {
	if flags.HasFlags() {
		fmt.Fprintf(b, ".SH %s\n", heading)
	}
	flags.VisitAll(func(f *pflag.Flag) {
		name, text := pflag.UnquoteUsage(f)
		short := ""
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		if before := f.DefValue; before != "" && !strings.Contains(" false 0 0s [] ", " "+before+" ") {
			text += " (default " + before + ")"
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(short+"--"+f.Name+" "+name)), roff(text))
	})
}

// roff makes text one that has no commands for the formatter, line by line.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "\t", "    ").Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
