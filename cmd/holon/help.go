package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/internal/visible"
)

// Help fits a screen. Where all of it does not, -h and --help show the beginning, the flags that are used
// often, and the names of the others; holon help COMMAND shows all of it, as the manual page does.
const (
	helpColumns = 80
	helpLines   = 40
)

// isRare marks a flag that has its own heading in the help of its command.
const isRare = "holon_rare"

// rarely says which flags of a command are used rarely.
func rarely(f *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f.Lookup(name).Annotations = map[string][]string{isRare: nil}
	}
}

// showHelp is what -h and --help do.
func showHelp(cmd *cobra.Command, _ []string) {
	text := helpText(cmd, false)
	if strings.Count(text, "\n") > helpLines {
		text = helpText(cmd, true)
	}
	fmt.Fprint(cmd.OutOrStdout(), text)
}

func newHelpCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]",
		Short: "Show all help of a command",
		Long: `Show all help of a command, also where COMMAND --help leaves out what
does not fit on a screen. Without a COMMAND, show that of holon.`,
		Example: "  holon help run\n  holon help agent model set",
		RunE: func(cmd *cobra.Command, args []string) error {
			found, rest, err := cmd.Root().Find(args)
			if err == nil {
				err = noCommand(found, rest)
			}
			if err == nil {
				_, err = fmt.Fprint(cmd.OutOrStdout(), helpText(found, false))
			}
			return err
		},
	}
}

// helpText is all help of a command, or short of it.
func helpText(cmd *cobra.Command, short bool) string {
	about := cmp.Or(cmd.Long, cmd.Short)
	if short {
		about, _, _ = strings.Cut(about, "\n\n")
	}
	usage := "  " + useLine(cmd)
	if often, _ := flagsOf(cmd); cmd.HasAvailableSubCommands() && cmd.HasParent() && often.HasFlags() {
		usage = "  " + cmd.CommandPath() + " [flags]\n" + usage // it does something itself
	}
	parts := []string{reflow(about), "Usage:\n" + reflow(usage)}
	if cmd.Example != "" {
		parts = append(parts, "Examples:\n"+cmd.Example+"\n")
	}
	parts = append(parts, commandHelp(cmd, short)...)
	parts = append(parts, flagHelp(cmd, short)...)
	if short {
		parts = append(parts, "All of it: holon help"+strings.TrimPrefix(cmd.CommandPath(), "holon")+"\n")
	} else if cmd.HasAvailableSubCommands() {
		parts = append(parts, cmd.CommandPath()+" COMMAND --help shows more of a command.\n")
	}
	return strings.Join(parts, "\n")
}

// useLine is how a command is written: flags before arguments.
func useLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	name, arguments, _ := strings.Cut(cmd.Use, " ")
	words := []string{cmd.Parent().CommandPath(), name}
	if often, rare := flagsOf(cmd); often.HasFlags() || rare.HasFlags() {
		words = append(words, "[flags]")
	}
	return strings.TrimSpace(strings.Join(append(words, arguments), " "))
}

// commandHelp lists the commands below one, by their groups. Commands of the root without a group are used rarely.
func commandHelp(cmd *cobra.Command, short bool) (parts []string) {
	width := 0
	for _, sub := range cmd.Commands() {
		width = max(width, len(sub.Name()))
	}
	list := func(heading, group string) {
		var b strings.Builder
		for _, sub := range cmd.Commands() {
			if sub.GroupID == group && (sub.IsAvailableCommand() || sub.Name() == "help") {
				fmt.Fprintf(&b, "  %-*s  %s\n", width, sub.Name(), sub.Short)
			}
		}
		if b.Len() > 0 {
			parts = append(parts, heading+":\n"+b.String())
		}
	}
	for _, group := range cmd.Groups() {
		list(group.Title, group.ID)
	}
	if len(cmd.Groups()) == 0 {
		list("Commands", "")
	} else if !short {
		list("Further commands", "")
	} else {
		var names []string
		for _, sub := range cmd.Commands() {
			if sub.GroupID == "" && !sub.Hidden && sub.Name() != "help" && sub.Name() != "version" { // named below
				names = append(names, sub.Name())
			}
		}
		parts = append(parts, "Further commands:\n"+reflow("  "+strings.Join(names, ", ")))
	}
	return parts
}

// flagHelp lists the flags of a command but --help, which is in all of them.
func flagHelp(cmd *cobra.Command, short bool) (parts []string) {
	often, rare := flagsOf(cmd)
	var names []string
	rare.VisitAll(func(f *pflag.Flag) { names = append(names, "--"+f.Name) })
	if often.HasFlags() {
		parts = append(parts, "Flags:\n"+often.FlagUsagesWrapped(helpColumns))
	}
	switch {
	case rare.HasFlags() && short:
		parts = append(parts, "Rarely used flags:\n"+reflow("  "+strings.Join(names, ", ")))
	case rare.HasFlags():
		parts = append(parts, "Rarely used flags:\n"+rare.FlagUsagesWrapped(helpColumns))
	}
	return parts
}

// flagsOf are the flags that are shown, in their order.
func flagsOf(cmd *cobra.Command) (often, rare *pflag.FlagSet) {
	often, rare = pflag.NewFlagSet("", pflag.ContinueOnError), pflag.NewFlagSet("", pflag.ContinueOnError)
	often.SortFlags, rare.SortFlags = false, false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		switch _, seldom := f.Annotations[isRare]; {
		case f.Name == "help" || f.Hidden:
		case seldom:
			rare.AddFlag(f)
		default:
			often.AddFlag(f)
		}
	})
	return often, rare
}

// reflow joins the lines of paragraphs without an indent and breaks rows at spaces, with the indent of the row.
func reflow(text string) string {
	var rows []string
	for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
		last := len(rows) - 1
		if last >= 0 && line != "" && line[0] != ' ' && rows[last] != "" && rows[last][0] != ' ' {
			rows[last] += " " + line
			continue
		}
		rows = append(rows, line)
	}
	for i, row := range rows {
		words := strings.TrimLeft(row, " ")
		indent := row[:len(row)-len(words)]
		// a hyphen of a flag is not a place to break
		words = ansi.Wordwrap(strings.ReplaceAll(words, "-", noBreak), helpColumns-len(indent), "")
		rows[i] = indent + strings.NewReplacer(noBreak, "-", "\n", "\n"+indent).Replace(words)
	}
	return strings.Join(rows, "\n") + "\n"
}

const noBreak = "\u2011" // the hyphen at which no line is broken

// within is how many letters a name may be away from what was written to be meant by it: not all of a short word.
func within(written string) int {
	if len(written) < 3 {
		return 1
	}
	return 2
}

func similarCommand(cmd *cobra.Command, written string) string {
	cmd.SuggestionsMinimumDistance = within(written)
	return didYouMean("", slices.DeleteFunc(cmd.SuggestionsFor(written), func(name string) bool {
		return slices.Contains(endings, name)
	}))
}

// endings are the commands that end, remove or take back something: no slip of the pen may lead to one.
var endings = []string{"abort", "cancel", "clear", "delete", "discard", "drop", "end", "exit", "gc", "kill",
	"prune", "remove", "reset", "restart", "revoke", "rewind", "rm", "rotate", "stop", "uninstall", "unset"}

// showing are names of one command: a group has one of them, and the others are aliases.
var showing = []string{"show", "inspect", "get"}

// addAliases lets the commands below cmd that show one thing have each of the names in showing.
func addAliases(cmd *cobra.Command) {
	taken := make(map[string]bool)
	for _, sub := range cmd.Commands() {
		taken[sub.Name()] = true
	}
	for _, sub := range cmd.Commands() {
		addAliases(sub)
		if !slices.Contains(showing, sub.Name()) {
			continue
		}
		for _, name := range showing {
			if !taken[name] {
				sub.Aliases = append(sub.Aliases, name)
			}
		}
	}
}

// similarFlag ends a sentence about a flag that does not exist. Flags are compared as the commands of a group are.
func similarFlag(cmd *cobra.Command, written string) string {
	if len(written) < 2 {
		return ""
	}
	names := &cobra.Command{SuggestionsMinimumDistance: within(written)}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		names.AddCommand(&cobra.Command{Use: f.Name, Run: func(*cobra.Command, []string) {}})
	})
	return didYouMean("--", names.SuggestionsFor(written))
}

func didYouMean(prefix string, names []string) string {
	if len(names) == 0 {
		return ""
	}
	for i := range names {
		names[i] = prefix + names[i]
	}
	return ", did you mean " + strings.Join(names, " or ") + "?"
}

// noCommand refuses an argument where only the name of a command can be.
func noCommand(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return usage("COMMAND", fmt.Sprintf("there is no command %q", visible.OneLine(args[0], 80))+
			similarCommand(cmd, args[0]), seeHelp(cmd))
	}
	return nil
}
