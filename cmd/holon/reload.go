package main

import (
	"context"
	"fmt"
	"reflect"
	"time"

	"golang.org/x/sys/unix"

	"holon/internal/redact"
	"holon/responses/turns"
	"holon/runner/credentials"
	"holon/runner/settings"
	"holon/state"
)

// lookEvery is how often the daemon looks whether its settings were changed.
const lookEvery = time.Second

// settingsFiles are the numbers, sizes and times of config.json and the credentials of a home, which differ when one
// was written, since each is replaced as a whole.
type settingsFiles string

func lookAtSettings(home state.Home) (files settingsFiles) {
	for _, path := range []string{settings.Path(home), credentials.StoreIn(home).Path()} {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			files += settingsFiles(fmt.Sprintln(path, st.Ino, st.Size, st.Mtim))
		}
	}
	return files
}

// followSettings takes up, until ctx ends, what is set of providers, models and keys while the agents live, and lets
// agents try again what is blocked after each change of the files. It lets them go on when a budget is not spent any
// more.
func (h *agentHost) followSettings(ctx context.Context) {
	clock := time.NewTicker(lookEvery)
	defer clock.Stop()
	reached := "unknown" // the bound of the host, when the agents' budgets were looked at
	for seen := h.options.files; ; {
		select {
		case <-ctx.Done():
			return
		case <-clock.C:
		}
		now := h.takeUp()
		if bound := h.providers().Total.Bound(); bound != reached || now != seen {
			if err := h.LookAtBudgets(ctx, bound); err != nil && ctx.Err() == nil {
				h.log.Error("agents whose budget is spent cannot go on", "err", err)
			}
			reached = bound
		}
		if now == seen {
			continue
		}
		seen = now
		if err := h.Unblock(ctx); err != nil && ctx.Err() == nil {
			h.log.Error("what is blocked cannot be tried again", "err", err)
		}
	}
}

// takeUp reads the settings anew if their files were changed since they were last read, and returns the files.
func (h *agentHost) takeUp() settingsFiles {
	h.reading.Lock()
	defer h.reading.Unlock()
	if now := lookAtSettings(h.options.home); now != h.files {
		h.files = now
		h.reload()
	}
	return h.files
}

// reload reads anew how models are asked. Of all other settings those count with which the daemon started.
func (h *agentHost) reload() {
	l := h.options.host.load(h.options.home, "")
	l.Consider(h.options.Refs()...)
	if err := l.Err(); err != nil {
		h.log.Warn("settings cannot be read; those that were there before stay in force", "err", err)
		l.Settings = *h.settings.Load()
	}
	old, now := h.settings.Load(), h.options.Settings
	now.Providers, now.Catalog, now.Unknown = l.Providers, l.Catalog, l.Unknown
	now.ListPrices, now.Budgets = l.ListPrices, l.Budgets
	h.settings.Store(&now)
	changed := !reflect.DeepEqual(old, &now)
	h.containers.Reconfigure(changed)
	h.clients.containers.Reconfigure(changed)
	h.hideKeys()
}

// hide takes registered secrets out of the data of events.
func (h *agentHost) hide(data []byte) []byte {
	return h.options.streams.Secrets.JSON(data, turns.Recorded)
}

// hideAnswer takes registered secrets out of an answer, but for those that are made for its operator to see.
func (h *agentHost) hideAnswer(data []byte) []byte {
	return h.options.streams.Secrets.JSON(data, turns.Recorded, redact.Constants{"trigger_url": {redact.Any},
		"signing_secret": {redact.Any}, "ingress_token": {redact.Any}})
}

// hideKeys has stored keys taken out of what is recorded and printed, also those that no model has needed yet.
func (h *agentHost) hideKeys() {
	if err := h.providers().Keys.RegisterSecrets(); err != nil {
		h.log.Warn("stored keys cannot be read: texts that have one are not recognised", "err", err)
	}
}
