package agentd_test

import (
	"bytes"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holon/responses/turns"
	"holon/test/expect"
)

// A picture that a tool shows is part of what the model is told, and of the record.
func TestViewImage(t *testing.T) {
	t.Parallel()
	h := start(t)
	var data bytes.Buffer
	expect.NoError(t, png.Encode(&data, image.NewGray(image.Rect(0, 0, 3, 2))))
	expect.NoError(t, os.WriteFile(filepath.Join(h.cfg.Dirs.Workspace, "plot.png"), data.Bytes(), 0o600))
	model := h.scenario("look", "rounds:\n  - calls: [{tool: ViewImage, arguments: {path: plot.png}}]\n"+
		"  - text: A grey box.\n")
	h.post(`{"model":"` + model + `","input":"look","holon":{"turn_id":"turn_look"}}`).response(t)
	facts, err := os.ReadFile(h.file("turn_look", turns.RuntimeFile))
	if err != nil || !strings.Contains(string(facts), "Picture shown: plot.png (png, 3×2, ") {
		t.Errorf("%v\n%s", err, facts)
	}
	// The next turn is told the same, so the record has the picture.
	kept := false
	err = filepath.WalkDir(h.cfg.Dirs.State, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := os.ReadFile(path)
		kept = kept || bytes.Contains(content, []byte("data:image/png;base64,"))
		return err
	})
	if err != nil || !kept {
		t.Errorf("the picture is not in the record, %v", err)
	}
}
