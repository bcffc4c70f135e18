// Package credentials finds the keys of providers: in a variable, in the
// credentials file, or by asking a program.
//
// The invariants: errors, logs and arguments of programs never contain a key;
// the file is read only while its owner alone may access it; listing the keys
// starts no program. A program is run without a shell, with few variables,
// for a bounded time and output.
package credentials

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"

	"holon/internal/providers"
	"holon/internal/redact"
	"holon/runner/gateway"
	"holon/runner/settings"
	"holon/state"
)

// The codes of errors.
const (
	CodeMissing       state.Code = gateway.CodeMissingCredentials
	CodeInvalidKey    state.Code = "invalid_credential"         // what was found can be no key
	CodeExposed       state.Code = "credentials_exposed"        // others can read the file
	CodeUnusable      state.Code = "credentials_unusable"       // the file cannot be read or written
	CodeCommandFailed state.Code = "credential_command_failed"  // the program gave no key
	CodeUnknown       state.Code = "credential_profile_unknown" // there is no such profile
)

const maxKey = 8 << 10

// Check says what is wrong with a key, nil for nothing. Its error does not show
// the key.
func Check(key gateway.Secret) error {
	text := key.Reveal()
	switch {
	case text == "":
		return &state.Error{Code: CodeInvalidKey, Param: "KEY", Message: "is empty",
			Hint: "give the key on standard input"}
	case len(text) > maxKey:
		return &state.Error{Code: CodeInvalidKey, Param: "KEY", Message: fmt.Sprintf("is longer than %d bytes", maxKey),
			Hint: "give the key alone"}
	}
	for i, c := range []byte(text) {
		if c <= ' ' || c > '~' {
			return &state.Error{Code: CodeInvalidKey, Param: "KEY",
				Message: fmt.Sprintf("has a character at offset %d that no key has", i),
				Hint:    "copy it again, without spaces or line ends"}
		}
	}
	return nil
}

// Mask shows a key so that its owner can tell it from others: the last four
// characters of a long one, nothing of a short one.
func Mask(key gateway.Secret) string {
	if text := key.Reveal(); len(text) >= 16 {
		return "…" + text[len(text)-4:]
	}
	return "…"
}

// Keys finds the keys of providers. It is safe for concurrent use.
type Keys struct {
	Store   Store
	Environ []string    // of this process
	Secrets *redact.Set // gets every key that is found, for redaction; may be nil
}

// Where describes the source of a key.
type Where struct {
	Source string `json:"source"`         // one of settings.Source…, never SourceAuto
	Name   string `json:"name,omitempty"` // variable, profile, or program
}

// String says it in a few words.
func (w Where) String() string {
	switch w.Source {
	case settings.SourceEnv:
		return w.Name
	case settings.SourceFile:
		return "profile " + w.Name
	case settings.SourceCommand:
		return "command " + w.Name
	}
	return "none"
}

// Locate says where the key of a provider comes from, and whether there is one;
// whether a command gives one only running it would tell. The error is about a
// credentials file that can't be used.
func (k *Keys) Locate(p settings.Provider) (w Where, found bool, err error) {
	variable := cmp.Or(p.Credential.Env, providers.Setting(p.Name, "API_KEY"))
	profile := cmp.Or(p.Credential.Profile, p.Name)
	env := Where{settings.SourceEnv, variable}
	file := Where{settings.SourceFile, profile}
	switch source := sourceOf(p.Credential); source {
	case settings.SourceNone:
		return Where{Source: source}, true, nil
	case settings.SourceCommand:
		if len(p.Credential.Command) == 0 {
			return Where{Source: source}, false, nil
		}
		return Where{source, p.Credential.Command[0]}, true, nil
	case settings.SourceEnv:
		return env, k.variable(variable) != "", nil
	case settings.SourceFile:
		found, err := k.Store.Has(profile)
		return file, found, err
	}
	if k.variable(variable) != "" {
		return env, true, nil
	}
	if found, err := k.Store.Has(profile); err != nil || found {
		return file, found, err
	}
	if p.KeyOptional {
		return Where{Source: settings.SourceNone}, true, nil
	}
	return env, false, nil
}

// sourceOf returns the source that is set, or that what is set means.
func sourceOf(c settings.Credential) string {
	switch {
	case c.Source != settings.SourceAuto:
		return c.Source
	case len(c.Command) > 0:
		return settings.SourceCommand
	case c.Profile != "":
		return settings.SourceFile
	case c.Env != "":
		return settings.SourceEnv
	}
	return settings.SourceAuto
}

func (k *Keys) variable(name string) string {
	value := ""
	for _, kv := range k.Environ {
		if n, v, ok := strings.Cut(kv, "="); ok && n == name {
			value = strings.TrimSpace(v)
		}
	}
	return value
}

// Source returns where the provider's key comes from and what gives it, nil when the provider needs none. A missing key
// is an error of Source, a command that prints none is an error of its Key.
func (k *Keys) Source(p settings.Provider) (Where, gateway.Credential, error) {
	w, found, err := k.Locate(p)
	if err == nil && !found {
		err = missing(p, w)
	}
	if err != nil {
		return w, nil, err
	}
	source, err := k.sourceAt(p, w)
	if source == nil || err != nil || k.Secrets == nil {
		return w, source, err
	}
	return w, learning{source, k.Secrets, "the key of " + p.Name}, nil
}

// RegisterSecrets registers all stored keys as secrets, also those that were not requested yet.
func (k *Keys) RegisterSecrets() error {
	stored, err := k.Store.List()
	for _, p := range stored {
		k.Secrets.Add("the stored key "+p.Name, p.Key.Reveal())
	}
	return err
}

func (k *Keys) sourceAt(p settings.Provider, w Where) (gateway.Credential, error) {
	switch w.Source {
	case settings.SourceNone:
		return nil, nil
	case settings.SourceCommand:
		return newCommand(p.Name, p.Credential.Command, k.Environ), nil
	case settings.SourceFile:
		return &profile{store: k.Store, name: w.Name}, nil
	}
	key := gateway.NewSecret(k.variable(w.Name))
	return key, about(w.Name, Check(key))
}

// learning makes known what a source gives, before anybody has it.
type learning struct {
	gateway.Credential
	secrets *redact.Set
	name    string
}

func (l learning) Key(ctx context.Context) (gateway.Secret, error) {
	key, err := l.Credential.Key(ctx)
	l.secrets.Add(l.name, key.Reveal())
	return key, err
}

func (l learning) Renew(ctx context.Context, refused gateway.Secret) (gateway.Secret, error) {
	key, err := l.Credential.Renew(ctx, refused)
	l.secrets.Add(l.name, key.Reveal())
	return key, err
}

// about makes an error of a key name where the key came from.
func about(param string, err error) error {
	if e, ok := errors.AsType[*state.Error](err); ok {
		named := *e
		named.Param = param
		return &named
	}
	return err
}

// missing says both ways to give a key.
func missing(p settings.Provider, w Where) error {
	e := &state.Error{Code: CodeMissing, Param: w.Name}
	switch {
	case w.Source == settings.SourceCommand:
		e.Param, e.Message = "providers."+p.Name+".credential.command",
			"is not set, and the key of "+p.Name+" is to come from it"
		e.Hint = fmt.Sprintf(`holon config set providers.%s.credential.command '["PROGRAM", "ARGUMENT"]'`, p.Name)
	case w.Source == settings.SourceFile:
		e.Message = fmt.Sprintf("there is no profile %s in the credentials file, and models of %s need it", w.Name,
			p.Name)
		e.Hint = "holon credentials set " + w.Name + ", which reads the key from standard input"
	default:
		e.Message = fmt.Sprintf("is not set, there is no stored key either, and models of %s need one", p.Name)
		if p.Credential.Source == settings.SourceEnv || p.Credential.Env != "" {
			e.Message = fmt.Sprintf("is not set and models of %s need it", p.Name)
		}
		e.Hint = fmt.Sprintf("set it in the environment, or store a key with: holon credentials set %s", p.Name)
	}
	return e
}

// profile is a key of the credentials file. The file is read whenever the key is
// asked for: somebody may have replaced it, and a container asks rarely.
type profile struct {
	store Store
	name  string
}

func (p *profile) Key(context.Context) (gateway.Secret, error) {
	key, err := p.store.Get(p.name)
	if errors.Is(err, fs.ErrNotExist) {
		return gateway.Secret{}, &state.Error{Code: CodeMissing, Param: p.name,
			Message: "the profile is no longer in the credentials file", Hint: "holon credentials set " + p.name}
	}
	return key, err
}

func (p *profile) Renew(ctx context.Context, _ gateway.Secret) (gateway.Secret, error) {
	return p.Key(ctx)
}
