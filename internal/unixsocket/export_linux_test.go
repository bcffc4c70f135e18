package unixsocket

// ListenPrivately is Listen of macOS.
var ListenPrivately = listenPrivately
