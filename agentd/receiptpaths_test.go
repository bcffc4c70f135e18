package agentd_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"regexp"
	"strings"
	"sync"
	"testing"

	"holon/agentd"
	"holon/agentd/config"
	"holon/agentd/model"
	"holon/responses"
)

// printer is a model that makes three calls a turn, each with much output.
type printer struct {
	mu   sync.Mutex
	told []map[string]string // output by call id, of each request
}

func (m *printer) Stream(_ context.Context, req model.Request) iter.Seq2[model.Event, error] {
	told := make(map[string]string)
	for _, item := range req.Input {
		if call, ok := item.(*responses.ToolCall); ok {
			told[call.CallID] = call.Output
		}
	}
	m.mu.Lock()
	m.told = append(m.told, told)
	m.mu.Unlock()
	_, ran := req.Input[len(req.Input)-1].(*responses.ToolCall)
	events := []model.Event{{Kind: model.CallBegin, CallID: fmt.Sprintf("c%d", len(told)), Name: "ExecCommand"},
		{Kind: model.CallEnd, Text: fmt.Sprintf(`{"cmd":"seq %d000 1 %d000"}`, len(told)+1, len(told)+4)}}
	if ran && len(told)%3 == 0 {
		events = []model.Event{{Kind: model.TextDelta, Text: "Done."}}
	}
	return func(yield func(model.Event, error) bool) {
		for _, ev := range append(events, model.Event{Kind: model.Done, Stop: model.StopEnd}) {
			if !yield(ev, nil) {
				return
			}
		}
	}
}

var namedFile = regexp.MustCompile(`(?m)^Full stdout: (.+)$`)

// The receipt of a call is the same in every later round and turn, and the file that it names is there, with all of the
// output.
func TestReceiptsNameFilesOfEarlierTurns(t *testing.T) {
	t.Parallel()
	m := &printer{}
	h := start(t, func(cfg *config.Config, parts *agentd.Parts) {
		alone(t, "gate", "any", m)(cfg, parts)
		cfg.Models.Windows = "gate/=16000"
	})
	previous := ""
	for range 3 {
		resp, err := responses.DecodeResponse(h.post(`{"input":"go"` + previous + `}`).body)
		if err != nil || resp.Status != responses.StatusCompleted {
			t.Fatalf("%+v, %v", resp, err)
		}
		previous = `,"previous_response_id":"` + resp.ID + `"`
	}
	receipts := make(map[string]string)
	for _, told := range m.told {
		for id, output := range told {
			if !strings.Contains(output, "was shortened to make room") {
				if receipts[id] != "" {
					t.Errorf("%s is whole again after it was a receipt", id)
				}
				continue
			}
			if before := receipts[id]; before != "" && before != output {
				t.Errorf("the receipt of %s was\n%s\nand is\n%s", id, before, output)
			}
			receipts[id] = output
		}
	}
	if len(receipts) < 4 {
		t.Fatalf("%d calls became receipts, want at least 4, some of which are of earlier turns", len(receipts))
	}
	for id, text := range receipts {
		match := namedFile.FindStringSubmatch(text)
		if match == nil {
			t.Errorf("the receipt of %s names no file:\n%s", id, text)
			continue
		}
		var first, last int
		data, err := os.ReadFile(match[1])
		if err == nil {
			_, err = fmt.Sscan(id[1:], &first)
			last = (first + 4) * 1000
		}
		if err != nil || !strings.HasPrefix(string(data), fmt.Sprintf("%d000\n", first+1)) ||
			!strings.HasSuffix(string(data), fmt.Sprintf("\n%d\n", last)) {
			t.Errorf("%s names %s, which has %d bytes of something else: %v", id, match[1], len(data), err)
		}
	}
}
