package conform

import (
	"bytes"
	"io"
)

// lossyEvents reads server-sent events as the official runner does, which loses
// what a careful reader keeps: the lines of an event that come in different
// chunks of the network, and all events of a stream with CR line ends. A server
// has to write each event at once and with LF. It returns the data of the
// events that were seen, without [DONE].
//
// A chunk is what one Read of r returns.
func lossyEvents(r io.Reader) (events [][]byte, err error) {
	var rest []byte // of a line
	buf := make([]byte, 1<<20)
	for {
		n, err := r.Read(buf)
		lines := bytes.Split(append(rest, buf[:n]...), []byte{'\n'})
		rest = bytes.Clone(lines[len(lines)-1])
		var data []byte // forgotten at the end of the chunk
		for _, line := range lines[:len(lines)-1] {
			switch {
			case bytes.HasPrefix(line, []byte("data:")):
				data = bytes.TrimPrefix(line[len("data:"):], []byte{' '})
			case len(line) == 0:
				if len(data) > 0 && string(data) != "[DONE]" {
					events = append(events, bytes.Clone(data))
				}
				data = nil
			}
		}
		if err == io.EOF {
			return events, nil
		}
		if err != nil {
			return events, err
		}
	}
}
