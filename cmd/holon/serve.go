package main

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holon/runner/access"
	"holon/runner/control"
	"holon/runner/modelaccess"
	"holon/runner/settings"
	"holon/state"
)

// serveOptions are what `holon serve` was asked to do, and what `holon daemon`
// starts it with.
type serveOptions struct {
	base
	configured

	Socket string // absolute path
	Access control.Access

	files        settingsFiles // before they were read
	scenarioFrom string        // the variable or file that named a scenario, "" for the flag

	socketFlag, accessMode, bindHost, token, tokenFile string
	port                                               int
	flags                                              *pflag.FlagSet
}

func newServeCommand(streams Streams) *cobra.Command {
	o := &serveOptions{base: base{streams: streams}}
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Keep agents alive, in the foreground",
		Long: `Keep the agents of a HOLON_HOME alive until interrupted: their queues, their
timers, their containers while there is work. Commands and other programs reach it
over a Unix socket, and over TCP when --access or --listen says so.

holon daemon start runs the same in the background.

Exit codes: 0 ended in good order, 2 usage error, 4 it could not start.`,
		Example: `  holon serve --model scripted/demo
  holon serve --access tunnel --port 7878 --advertise https://holon.example.org`,
		Args: argumentsOfUse,
		RunE: func(cmd *cobra.Command, args []string) error {
			err := o.begin(args)
			if err == nil {
				err = o.complete()
			}
			if err == nil {
				err = serve(cmd.Context(), o)
			}
			return o.named(&o.host, err)
		},
	}
	o.define(cmd.Flags())
	return cmd
}

// define makes the flags, which the commands of the daemon share.
func (o *serveOptions) define(f *pflag.FlagSet) {
	f.SortFlags, o.flags = false, f
	f.StringVar(&o.socketFlag, "socket", "",
		"`path` of the control socket (default HOLON_SOCKET_PATH, else run/holon.sock of HOLON_HOME)")
	f.StringVar(&o.accessMode, "access", "",
		"`mode`: from where it is reached over TCP: local, tunnel, lan or tailnet (default not at all)")
	f.StringVar(&o.bindHost, "host", "", "`address` to listen on (default 127.0.0.1; lan and tailnet need one)")
	f.IntVar(&o.port, "port", 0, fmt.Sprintf("TCP `port` (default %d)", control.DefaultPort))
	f.String("listen", "", "`HOST:PORT` instead of --host and --port")
	f.String("advertise", "", "`URL` under which others reach the port; URLs of triggers begin with it")
	f.StringVar(&o.token, "token", "", "`token` that TCP clients must send (default HOLON_CONTROL_TOKEN, which "+
		"other users cannot see)")
	f.StringVar(&o.tokenFile, "token-file", "",
		"`file` of mode 0600 with the token (default one is made in HOLON_HOME)")
	f.String("tokens-file", "", "`file` of mode 0600 with a line NAME:TOKEN[:RIGHT+RIGHT...] for each other program")
	f.String("ledger", "", "`URL` of the PostgreSQL database with the ledger, without the password (default a "+
		"file in HOLON_HOME)")
	f.String("store", "", "`URL` of the bucket with the files of agents and sessions, s3://BUCKET/PREFIX, for hosts "+
		"that share --ledger and no HOLON_HOME")
	f.String("engine", "", "auto, docker, kubernetes, or local, which confines nothing")
	f.String("image", "", "container `image` of agents that have none of their own")
	f.StringP("model", "m", "", "model of agents that have none of their own, as `provider/name`")
	f.String("agent", "", "`id` of the default agent")
	f.StringArray("workspace-root", nil, "`directory` of which agents may use what lies below; may be repeated")
	defaults := settings.Default()
	f.IntVar(&defaults.MaxSessions, "max-sessions", defaults.MaxSessions, "sessions of other programs open at once")
	f.Int("token-max-sessions", 0, "sessions of one token open at once (default half of --max-sessions)")
	f.Int("token-max-turns", 0, "turns of all sessions of one token (default unlimited)")
	f.Int64("token-max-tokens", 0, "model tokens of all sessions of one token (default unlimited)")
	f.String("token-max-cost", "", "what all sessions of one token may cost (default unlimited)")
	f.String("token-max-disk", "", "how much of the disk all sessions of one token may take (default unlimited)")
	timeVar(f, &defaults.SessionPause, "session-pause", "`time` without work after which a session is paused")
	timeVar(f, &defaults.SessionStop, "session-stop", "`time` without work after which its container is removed")
	timeVar(f, &defaults.SessionTTL, "session-ttl", "`time` without work after which it is closed")
	timeVar(f, &defaults.ClientCallTimeout, "client-call-timeout",
		"`time` that an agent waits for a client's answer to a call")
	rarely(f, "ledger", "store", "socket", "host", "port", "listen", "advertise", "token", "token-file", "tokens-file",
		"max-sessions", "token-max-sessions", "token-max-turns", "token-max-tokens", "token-max-cost", "token-max-disk",
		"session-pause", "session-stop", "session-ttl", "client-call-timeout")
}

// complete merges the layers of settings and checks what was asked for. It makes
// nothing.
func (o *serveOptions) complete() (err error) {
	if o.Agentd != "" {
		if o.Agentd, err = filepath.Abs(o.Agentd); err != nil {
			return usage("HOLON_AGENTD", err.Error(), "give an absolute path")
		}
	}
	if err := o.placeTokens(); err != nil {
		return err
	}
	o.files = lookAtSettings(o.home)
	if err := o.merge(&o.host, o.home, "", o.flags); err != nil {
		return err
	}
	if err := o.checkRoots(); err != nil {
		return err
	}
	if err := o.placeScenario(); err != nil {
		return err
	}
	if o.Socket, err = o.socketPath(o.socketFlag, o.home); err != nil {
		return err
	}
	return o.completeAccess()
}

// checkRoots refuses a directory that is named now and is not there. One of the settings may come back.
func (o *serveOptions) checkRoots() error {
	if o.Origin("workspace_roots").Layer != settings.LayerFlag {
		return nil
	}
	for _, root := range o.WorkspaceRoots {
		if info, err := os.Stat(root); err != nil || !info.IsDir() {
			return usage("--workspace-root", fmt.Sprintf("%.300q is not a directory", root), "name a directory that is there")
		}
	}
	return nil
}

// checkModels refuses to start when the models of agents that have none of their own cannot be asked.
func (o *serveOptions) checkModels(host *modelaccess.Host) error {
	if err := o.needModel(host); err != nil {
		return err
	}
	for i, ref := range o.Refs() {
		var err error
		if i > 0 {
			err = checkFallback(ref)
		}
		if err == nil {
			err = checkModel(host, ref)
		}
		if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "--model" {
			if e.Param = "--model-fallbacks"; i == 0 {
				e.Param = cmp.Or(o.scenarioFrom, "--model")
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// checkImage refuses to start with an image that was set and that no container can have. The default one is not looked
// at: every agent may have another.
func (o *serveOptions) checkImage(ctx context.Context) error {
	if o.Origin("image").Layer == settings.LayerDefault {
		return nil
	}
	eng, err := o.newEngine(engineName(o.Loaded.Engine), o.Loaded.Link, o.home)
	if err != nil {
		return err
	}
	return errors.Join(checkImage(ctx, eng, o.Image), eng.Close())
}

// makeHome makes the home, whose path is final only then.
func (o *serveOptions) makeHome() (err error) {
	if o.home, err = state.MakeHome(o.Home, o.UserHome); err != nil {
		return err
	}
	o.Socket, err = o.socketPath(o.socketFlag, o.home)
	return err
}

// completeAccess puts the way in over TCP together.
func (o *serveOptions) completeAccess() error {
	a := control.Access{Mode: control.Mode(o.accessMode), Host: o.bindHost, Port: o.port, Listen: o.HTTPAddr,
		Advertise: o.CallbackBaseURL, Auth: control.Auth(o.AuthMode)}
	given := o.flags.Changed
	if (given("host") || given("port")) && !given("listen") {
		a.Listen = "" // a setting, which the flags outweigh
	}
	if a.Listen == "" && a.Mode == "" && !given("advertise") {
		a.Advertise = "" // likewise: there is no port that it could be of
	}
	if given("port") {
		if err := checkRange("--port", o.port, 1, 65535); err != nil {
			return err
		}
	}
	var err error
	if o.TokensFile != "" && (given("tokens-file") || a.Listen != "" || a.Mode != "") {
		if a.Tokens, err = access.OpenTokens(o.TokensFile); err != nil {
			return err
		}
	}
	if a.Token, err = o.findToken(); err != nil {
		return err
	}
	return o.checkAccess(a)
}

// checkAccess checks the way in. Where a token is missing, its error names the variable that has one.
func (o *serveOptions) checkAccess(a control.Access) (err error) {
	o.Access, err = a.Check()
	if e, ok := errors.AsType[*state.Error](err); ok && e.Param == "token" && o.token == "" && o.tokenFile == "" {
		e.Param = "HOLON_CONTROL_TOKEN"
	}
	return err
}

// placeTokens makes the path of the tokens file absolute: the daemon runs elsewhere.
func (o *serveOptions) placeTokens() error {
	if !o.flags.Changed("tokens-file") {
		return nil
	}
	path, err := o.flags.GetString("tokens-file")
	if err == nil && path != "" {
		if path, err = absolute("--tokens-file", path); err == nil {
			err = o.flags.Set("tokens-file", path)
		}
	}
	return err
}

// findToken is the token that is given, "" for none.
func (o *serveOptions) findToken() (token string, err error) {
	if o.flags.Changed("token") && o.tokenFile != "" {
		return "", usage("--token", "--token-file is given as well", "give one of them")
	}
	token = cmp.Or(o.token, o.ControlToken)
	if o.tokenFile != "" {
		if o.tokenFile, err = filepath.Abs(o.tokenFile); err == nil {
			token, err = control.ReadToken(o.tokenFile)
		}
	}
	o.streams.Secrets.Add("control token", token)
	return token, err
}

// placeScenario makes the path of a scripted model absolute: the daemon runs elsewhere.
func (o *serveOptions) placeScenario() error {
	placed := scenarioFromHere(o.Model)
	if placed == o.Model {
		return nil
	}
	if from := o.Origin("model.default"); from.Layer != settings.LayerFlag {
		o.scenarioFrom = from.Name
	}
	return o.Override("model.default", "--model", placed)
}

// fingerprint differs between daemons with different options: it covers
// what is in force, wherever that was set, and no secret can be found from it.
func (o *serveOptions) fingerprint() string {
	var token string
	if o.Access.Token != "" {
		sum := sha256.Sum256([]byte("holon control token\n" + o.Access.Token))
		token = hex.EncodeToString(sum[:])
	}
	shown := o.Access
	shown.Token, shown.Tokens = "", nil
	type setting struct{ Key, Value string }
	var inForce []setting
	for _, e := range o.All() {
		if reloaded(e) {
			continue
		}
		inForce = append(inForce, setting{e.Key, settings.Text(e.Value)})
	}
	data, err := json.Marshal(struct {
		Home, Socket, Agentd, DockerHost, Token string
		Access                                  control.Access
		Settings                                []setting
	}{o.home.Dir(), o.Socket, o.Agentd, o.DockerHost, token, shown, inForce})
	if err != nil { // it is all text and numbers
		panic(err)
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:16])
}

// reloaded reports whether a daemon takes up a change of a setting in config.json by itself.
func reloaded(e settings.Entry) bool {
	if e.Origin.Layer != settings.LayerUser && e.Origin.Layer != settings.LayerDefault {
		return false
	}
	for _, group := range []string{"providers.", "models.catalog.", "model.unknown_fallback."} {
		if strings.HasPrefix(e.Key, group) {
			return true
		}
	}
	return false
}

// invocation returns the arguments and variables with which `holon serve` has the
// same options in another directory. The token is a variable: arguments can be
// seen by others.
func (o *serveOptions) invocation() (args, env []string) {
	args = []string{"serve", "--socket=" + o.Socket}
	o.flags.Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "ledger", "store", "access", "host", "port", "listen", "advertise", "engine", "image", "agent", "tokens-file",
			"max-sessions", "token-max-sessions", "token-max-turns", "token-max-tokens", "token-max-cost", "token-max-disk",
			"session-pause", "session-stop", "session-ttl", "client-call-timeout":
			args = append(args, "--"+f.Name+"="+f.Value.String())
		case "token-file":
			args = append(args, "--token-file="+o.tokenFile)
		case "workspace-root":
			for _, root := range o.WorkspaceRoots {
				args = append(args, "--workspace-root="+root)
			}
		}
	})
	if origin := o.Origin("model.default"); origin.Layer == settings.LayerFlag {
		args = append(args, "--model="+o.Model)
	}
	for _, kv := range os.Environ() {
		if name, _, _ := strings.Cut(kv, "="); name != "HOLON_CONTROL_TOKEN" && name != "HOLON_HOME" &&
			name != "HOLON_AGENTD" {
			env = append(env, kv)
		}
	}
	env = append(env, "HOLON_HOME="+o.home.Dir())
	if o.Agentd != "" {
		env = append(env, "HOLON_AGENTD="+o.Agentd)
	}
	if o.tokenFile == "" && o.Access.Token != "" {
		env = append(env, "HOLON_CONTROL_TOKEN="+o.Access.Token)
	}
	return args, env
}

// listen opens the ways in. A missing token is made now, and kept.
func (o *serveOptions) listen(ctx context.Context) (*control.Listeners, error) {
	at := o.Access
	if at.NeedsToken() && at.Token == "" {
		path := filepath.Join(o.home.Dir(), "run", "control.token")
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return nil, fmt.Errorf("make the directory of the token: %w", err)
		}
		var err error
		if at.Token, err = control.KeepToken(path); err != nil {
			return nil, err
		}
		o.streams.Secrets.Add("control token", at.Token)
	}
	return control.Listen(ctx, o.Socket, at)
}
