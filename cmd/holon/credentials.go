package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"
	"golang.org/x/term"

	"holon/responses/turns"
	"holon/runner/credentials"
	"holon/runner/gateway"
	"holon/runner/settings"
	"holon/state"
)

func newCredentialsCommand(streams Streams) *cobra.Command {
	return group("credentials", "Store keys of providers",
		`Keys are stored in `+credentials.File+` of HOLON_HOME, which only you can read, by the
name of a provider. A provider's variable, OPENAI_API_KEY for openai, outweighs
its stored key. Keys stay on this machine: a run's gateway adds them.`,
		surfaceCommand(streams, "set NAME", "Store a key, which is read from standard input", runCredentialsSet),
		tableCommand(surfaceCommand(streams, "list",
			"List the keys that there are, masked, and which providers use them", runCredentialsList), streams),
		surfaceCommand(streams, "remove NAME", "Remove a stored key",
			func(_ context.Context, s *surface) error { return s.keys.Store.Remove(s.args[0]) }),
	)
}

const maxKeyInput = 64 << 10

// runCredentialsSet reads a key from standard input, never from an argument,
// which other users of the machine could see. A terminal shows nothing of it.
func runCredentialsSet(ctx context.Context, s *surface) error {
	var text []byte
	var err error
	if f, ok := s.streams.In.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		text, err = askSecretly(ctx, f, s.streams.Err, "Key of "+s.args[0]+" (it is not shown): ")
	} else {
		text, err = readAll(ctx, io.LimitReader(s.streams.In, maxKeyInput))
	}
	if err != nil {
		return err
	}
	key := gateway.NewSecret(strings.TrimSpace(string(text)))
	if err := credentials.Check(key); err != nil {
		return err
	}
	home, err := state.MakeHome(s.Home, s.UserHome)
	if err != nil {
		return err
	}
	if err := credentials.StoreIn(home).Set(s.args[0], key, time.Now()); err != nil {
		return err
	}
	list, err := s.credentials()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(c credential) bool {
		return c.Source == settings.SourceFile && c.Name == s.args[0] && len(c.Used) > 0
	}) {
		s.streams.say(fmt.Sprintf("holon: no provider uses the profile %s here; see holon credentials list", s.args[0]))
	}
	return nil
}

// askSecretly reads a line from a terminal that does not show it, and leaves the
// terminal as it was, also when ctx ends first.
func askSecretly(ctx context.Context, f *os.File, prompt io.Writer, text string) (line []byte, err error) {
	before, err := term.GetState(int(f.Fd()))
	if err != nil {
		return nil, fmt.Errorf("read the terminal: %w", err)
	}
	defer fmt.Fprintln(prompt)
	defer func() { err = errors.Join(err, term.Restore(int(f.Fd()), before)) }()
	// Nothing may be shown from the prompt on, however fast a key is pasted.
	quiet, err := unix.IoctlGetTermios(int(f.Fd()), getTermios)
	if err == nil {
		quiet.Lflag &^= unix.ECHO
		err = unix.IoctlSetTermios(int(f.Fd()), setTermios, quiet)
	}
	if err != nil {
		return nil, fmt.Errorf("silence the terminal: %w", err)
	}
	fmt.Fprint(prompt, text)
	line, err = untilDone(ctx, func() ([]byte, error) { return term.ReadPassword(int(f.Fd())) })
	if errors.Is(err, io.EOF) {
		return nil, nil // an empty key, which is refused
	}
	return line, err
}

// credential is a line of `holon credentials list`.
type credential struct {
	Source string   `json:"source"` // env, credential_file or command
	Name   string   `json:"name"`   // variable, profile or program
	Masked string   `json:"masked"` // "" for a command, which is not run
	SetAt  string   `json:"set_at"` // of a profile
	Used   []string `json:"used_by"`
}

func runCredentialsList(_ context.Context, s *surface) error {
	list, err := s.credentials()
	if err == nil && len(list) == 0 && !s.JSON {
		s.streams.say("holon: there are no keys; set a variable such as OPENAI_API_KEY, or store one with: " +
			"holon credentials set openai")
		return nil
	}
	return showList(&s.base, list, err, []string{"SOURCE", "NAME", "KEY", "USED BY"}, func(c credential) []string {
		return []string{c.Source, c.Name, c.Masked, strings.Join(c.Used, ", ")}
	})
}

// credentials returns the keys that there are: those that providers use, and
// those that are stored besides.
func (s *surface) credentials() (list []credential, err error) {
	profiles, err := s.keys.Store.List()
	if err != nil {
		return nil, err
	}
	list = []credential{}
	find := func(w credentials.Where) *credential {
		for i := range list {
			if list[i].Source == w.Source && list[i].Name == w.Name {
				return &list[i]
			}
		}
		list = append(list, credential{Source: w.Source, Name: w.Name, Used: []string{}})
		return &list[len(list)-1]
	}
	for _, profile := range profiles {
		c := find(credentials.Where{Source: settings.SourceFile, Name: profile.Name})
		c.Masked = credentials.Mask(profile.Key)
		if !profile.SetAt.IsZero() {
			c.SetAt = turns.At(profile.SetAt).String()
		}
	}
	for _, name := range s.Loaded.ProviderNames() {
		p, _ := s.Loaded.Provider(name)
		w, found, err := s.keys.Locate(p)
		if err != nil {
			return nil, err
		}
		if !found || w.Source == settings.SourceNone {
			continue
		}
		c := find(w)
		c.Used = append(c.Used, name)
		if w.Source == settings.SourceEnv {
			c.Masked = credentials.Mask(gateway.NewSecret(strings.TrimSpace(os.Getenv(w.Name))))
		}
	}
	return list, nil
}
