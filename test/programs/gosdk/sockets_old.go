//go:build openai381

package main

// sockets are no checks: this release knows no WebSockets.
func sockets() []check { return nil }
