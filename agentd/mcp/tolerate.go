package mcp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"holon/internal/mcpwire"
	"holon/internal/visible"
	"holon/responses"
)

// maxUnknown bounds what is shown of a block of content that the SDK cannot decode, in bytes.
const maxUnknown = 1 << 10

// tolerant reads the lines of a server, of its output or of a body over HTTP. It replaces in answers what the SDK
// cannot decode: for one unknown block the SDK gives up the answer, and with it the connection. Lines beyond maxMessage
// are passed on as they are.
type tolerant struct {
	from *bufio.Reader
	line []byte // the rest of the present one
	long bool   // the present one is passed on in parts
	err  error  // after line
}

func newTolerant(r io.Reader) *tolerant { return &tolerant{from: bufio.NewReaderSize(r, 16<<10)} }

func (t *tolerant) Read(p []byte) (int, error) {
	for len(t.line) == 0 && t.err == nil {
		t.next()
	}
	if len(t.line) == 0 {
		return 0, t.err
	}
	n := copy(p, t.line)
	t.line = t.line[n:]
	return n, nil
}

// next reads a line, or a part of one that is too long.
func (t *tolerant) next() {
	t.line = nil
	for len(t.line) <= maxMessage {
		part, err := t.from.ReadSlice('\n')
		t.line = append(t.line, part...)
		switch full := errors.Is(err, bufio.ErrBufferFull); {
		case full && t.long:
			return
		case full:
			continue
		case !t.long:
			t.line = tolerateLine(t.line)
		}
		t.long, t.err = false, err
		return
	}
	t.long = true
}

// tolerateLine replaces the answer in a line, also of a stream of events.
func tolerateLine(line []byte) []byte {
	payload := bytes.TrimSpace(bytes.TrimPrefix(line, []byte("data:")))
	var message map[string]json.RawMessage
	if len(payload) == 0 || payload[0] != '{' || json.Unmarshal(payload, &message) != nil {
		return line
	}
	result, changed := tolerate(message["result"])
	switch {
	case changed:
		message["result"] = result
	case answersNothing(message):
		message["error"] = encode(jsonrpc.Error{Code: mcpwire.CodeMalformed,
			Message: "its result is not an object: " + visible.Clip(string(message["result"]), maxUnknown)})
		delete(message, "result")
	default:
		return line
	}
	return bytes.Replace(line, payload, encode(message), 1)
}

// answersNothing reports whether a message is an answer with neither a result that is an object nor such an error. The
// SDK gives up the connection for it, and not only the call.
func answersNothing(message map[string]json.RawMessage) bool {
	object := func(member string) bool { return bytes.HasPrefix(message[member], []byte("{")) }
	return message["jsonrpc"] != nil && message["id"] != nil && message["method"] == nil &&
		!object("result") && !object("error")
}

// tolerate returns a result of tools/call or tools/list that the SDK can decode, and whether it differs.
func tolerate(result json.RawMessage) (json.RawMessage, bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(result, &members) != nil {
		return nil, false
	}
	switch {
	case members["tools"] != nil && json.Unmarshal(result, new(sdk.ListToolsResult)) != nil:
		members["tools"] = each(members["tools"], func(tool json.RawMessage) json.RawMessage {
			var members map[string]json.RawMessage
			if json.Unmarshal(tool, &members) != nil {
				return json.RawMessage("{}") // the listing reports a tool without a name
			}
			return decodable[sdk.Tool](members)
		})
		return decodable[sdk.ListToolsResult](members), true
	case members["content"] != nil && json.Unmarshal(result, new(sdk.CallToolResult)) != nil:
		members["content"] = each(members["content"], knownBlock)
		return decodable[sdk.CallToolResult](members), true
	}
	return nil, false
}

// each replaces the elements of a list. What should be a list and is not becomes its only element.
func each(list json.RawMessage, replace func(json.RawMessage) json.RawMessage) json.RawMessage {
	var elements []json.RawMessage
	if json.Unmarshal(list, &elements) != nil {
		elements = []json.RawMessage{list}
	}
	for i, element := range elements {
		elements[i] = replace(element)
	}
	return encode(elements)
}

// decodable encodes the members of an object that T can have.
func decodable[T any](members map[string]json.RawMessage) json.RawMessage {
	for name, value := range members {
		if json.Unmarshal(encode(map[string]json.RawMessage{name: value}), new(T)) != nil {
			delete(members, name)
		}
	}
	return encode(members)
}

// blockMembers are the members of a block of content that a result shows.
var blockMembers = []string{"type", "text", "data", "mimeType", "resource", "uri", "name"}

// knownBlock returns a block of content, without what a result does not show if that is malformed, and as a text if it
// is of an unknown type.
func knownBlock(block json.RawMessage) json.RawMessage {
	var members map[string]json.RawMessage
	var text string
	if json.Unmarshal(block, &members) != nil {
		if json.Unmarshal(block, &text) == nil {
			return textBlock(text)
		}
	} else {
		maps.DeleteFunc(members, func(name string, _ json.RawMessage) bool {
			return !slices.Contains(blockMembers, name)
		})
		for _, candidate := range []json.RawMessage{block, encode(members)} {
			var r sdk.CallToolResult
			if json.Unmarshal(encode(map[string][]json.RawMessage{"content": {candidate}}), &r) == nil {
				return candidate
			}
		}
	}
	_ = json.Unmarshal(members["type"], &text) // it may have none
	return textBlock(fmt.Sprintf("[content of type %q that cannot be read: %s]", text,
		visible.Clip(string(block), maxUnknown)))
}

func textBlock(text string) json.RawMessage {
	return encode(map[string]string{"type": "text", "text": text})
}

// encode encodes a value that was decoded before.
func encode(v any) json.RawMessage {
	data, err := responses.Marshal(v)
	if err != nil {
		return json.RawMessage("null") // for a number that JSON does not have, which was not decoded either
	}
	return data
}
