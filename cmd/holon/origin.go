package main

import (
	"strings"

	"holon/runner/engine"
	"holon/runner/settings"
	"holon/state"
)

// settingError is an error of a command that names a setting by where it was set.
type settingError struct {
	error
	loaded *settings.Loaded
	docker string // DOCKER_HOST
}

// Unwrap returns the error itself.
func (e *settingError) Unwrap() error { return e.error }

// named makes an error that is about a flag name the variable or the file instead, where the value came from there.
func (c *configured) named(h *host, err error) error {
	if err == nil || c.Loaded == nil {
		return err
	}
	return &settingError{err, c.Loaded, h.DockerHost}
}

// name names in a failure what a person has to look at. A nil e knows nothing of settings.
func (e *settingError) name(f *state.Failure) {
	if e == nil {
		return
	}
	if f.Code == string(engine.CodeUnreachable) && e.docker != "" {
		f.Param = "DOCKER_HOST"
		f.Hint = strings.Replace(f.Hint, "start Docker, set DOCKER_HOST", "start the engine there, name another", 1)
		return
	}
	option, key := f.Param, settingOf(f.Param)
	switch origin := e.loaded.Origin(key); origin.Layer {
	case settings.LayerEnv:
		f.Param = origin.Name
		f.Hint = strings.Replace(f.Hint, "raise it with holon config set "+key, "raise "+origin.Name, 1)
		f.Hint = strings.Replace(f.Hint, "raise "+option, "raise "+origin.Name, 1)
	case settings.LayerUser, settings.LayerProject:
		f.Param = origin.Name + ": " + key
		f.Hint = strings.Replace(f.Hint, "raise "+option, "raise it there", 1)
	}
}

// settingOf is the key that files have for what an error names: a flag, or a key without a flag; "" for anything else.
func settingOf(param string) string {
	for _, f := range flagKeys {
		if "--"+f.flag == param {
			return f.key
		}
	}
	if strings.HasPrefix(param, "runtime.") {
		return param
	}
	return ""
}
