package main

import (
	"fmt"

	"holon/runner/workspace"
	"holon/state"
)

// showEnd prints how a run ended, whose results are in dir, and makes its exit
// code the program's.
func showEnd(streams Streams, asJSON bool, m *state.Manifest, dir string, view *progress) error {
	if asJSON {
		data, err := m.Encode()
		if err != nil {
			return err
		}
		if _, err := streams.Out.Write(machineText(data)); err != nil {
			return err
		}
	} else if err := view.showAnswer(); err != nil {
		return err
	}
	return showClosing(streams, m, dir, view)
}

// showClosing ends the progress of a run.
func showClosing(streams Streams, m *state.Manifest, dir string, view *progress) error {
	view.summary(m, dir)
	if m.ExitCode != 0 {
		if m.Error != nil {
			fmt.Fprintln(streams.Err, "holon: "+streams.defuse(line(*m.Error)))
		}
		return exitError(m.ExitCode)
	}
	return nil
}

// changes reads from a manifest what the run changed.
func changes(m *state.Manifest) (files []workspace.FileChange) {
	if diff := workspaceOf(m).Changes; diff != nil {
		return diff.Files
	}
	return nil
}
