package state

import (
	"path/filepath"
	"strconv"
	"strings"
)

// Parts of a run are runs themselves, whose directories lie in that of the run and go with it. Their ids begin with its
// id: run_x-2 is the second attempt of run_x, run_x-2-check what checked it.
const (
	PartCheck = "check" // what runs the check of a run
	PartJudge = "judge" // what compares attempts that are equal

	AttemptsDir = "attempts" // holds the directories of the attempts of a run, by number
)

// PartID is the id of a part of a run: PartCheck, PartJudge, or the number of an attempt.
func PartID(run, part string) string { return run + "-" + part }

// AttemptID is the id of an attempt of a run.
func AttemptID(run string, number int) string { return PartID(run, strconv.Itoa(number)) }

// WholeOf returns the run that id is a part of, and which part; id and "" if it is none.
func WholeOf(id string) (run, part string) {
	at := strings.LastIndexByte(id, '-')
	if at < 0 || !isPart(id[at+1:]) {
		return id, ""
	}
	return id[:at], id[at+1:]
}

func isPart(name string) bool {
	n, err := strconv.Atoi(name)
	return name == PartCheck || name == PartJudge || err == nil && n > 0 && strconv.Itoa(n) == name
}

// RunDir is the directory of one run. The id must have passed CheckRunID.
func (h Home) RunDir(id string) string {
	run, part := WholeOf(id)
	switch part {
	case "":
		return filepath.Join(h.RunsDir(), id)
	case PartCheck, PartJudge:
		return filepath.Join(h.RunDir(run), part)
	}
	return filepath.Join(h.RunDir(run), AttemptsDir, part)
}

// RunPatterns are patterns of the directories of runs and of their attempts.
func (h Home) RunPatterns() []string {
	return []string{h.RunDir("*"), filepath.Join(h.RunDir("*"), AttemptsDir, "*")}
}

// RunAt is the id of the run whose directory is dir, below RunsDir.
func (h Home) RunAt(dir string) string {
	rel, err := filepath.Rel(h.RunsDir(), dir)
	if err != nil {
		return filepath.Base(dir)
	}
	rel = strings.ReplaceAll(rel, AttemptsDir+string(filepath.Separator), "")
	return strings.ReplaceAll(rel, string(filepath.Separator), "-")
}
