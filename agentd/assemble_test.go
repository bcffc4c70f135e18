package agentd

import (
	"slices"
	"testing"

	"holon/agentd/config"
	"holon/agentd/process"
	"holon/agentd/tasks"
	"holon/agentd/tools"
	"holon/test/expect"
)

// all is the container's whole set of tools.
func all(t *testing.T, cfg config.Config) *tools.Registry {
	t.Helper()
	sup := process.New(process.Options{})
	managed := tasks.New(tasks.Options{Dir: t.TempDir()})
	t.Cleanup(func() {
		if err := managed.Close(); err != nil {
			t.Error(err)
		}
		if err := sup.Close(); err != nil {
			t.Error(err)
		}
	})
	r, err := toolset(cfg, sup, managed)
	expect.NoError(t, err)
	return r
}

func TestProfile(t *testing.T) {
	t.Parallel()
	names := func(r *tools.Registry) (list []string) {
		for _, d := range r.Definitions() {
			list = append(list, d.Name)
		}
		return list
	}
	whole := []string{"ExecCommand", "ExecCommandBatch", "TaskList", "TaskStatus", "TaskOutput", "TaskInput",
		"TaskStop", "ApplyPatch", "ViewImage"}
	if got := names(all(t, config.Default())); !slices.Equal(got, whole) {
		t.Errorf("tools %v", got)
	}
	cfg := config.Default()
	cfg.Tools.Names = " ApplyPatch, ExecCommand "
	if got := names(all(t, cfg)); !slices.Equal(got, []string{"ExecCommand", "ApplyPatch"}) {
		t.Errorf("tools %v", got)
	}
	cfg.Tools.Names = "ApplyPatch,Shell"
	if _, err := toolset(cfg, nil, nil); err == nil {
		t.Error("an unknown tool is accepted")
	}
}
