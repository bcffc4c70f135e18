package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

const (
	unitMS    = "ms"
	unitMB    = "MB" // of a million bytes
	unitRate  = "/s"
	unitCount = ""
)

// row is one line of the result. With no goal it is there for information. A Floor of zero is none.
type row struct {
	ID      string  `json:"id"`
	What    string  `json:"what"`
	Unit    string  `json:"unit"`
	Against string  `json:"against"` // what the floor is
	Floor   float64 `json:"floor"`
	Ours    float64 `json:"ours"`
	Ratio   float64 `json:"ratio"`
	Goal    string  `json:"goal,omitempty"`
	Met     string  `json:"met,omitempty"` // yes or no
}

// versus is a row about what compare measured, in each round.
func versus(id, what, against, unit string, ours, floor []float64) row {
	return row{ID: id, What: what, Against: against, Unit: unit, Floor: median(floor), Ours: median(ours),
		Ratio: ratio(ours, floor)}
}

func (r row) ratioGoal(most float64) row {
	return r.goal(fmt.Sprintf("≤ %g×", most), r.Ratio <= most)
}

// leastGoal is the goal of a rate.
func (r row) leastGoal(least float64) row {
	return r.goal(fmt.Sprintf("≥ %g×", least), r.Ratio >= least)
}

func (r row) absoluteGoal(most float64) row {
	return r.goal(strings.TrimSpace(fmt.Sprintf("≤ %g %s", most, r.Unit)), r.Ours <= most)
}

func (r row) goal(goal string, met bool) row {
	r.Goal, r.Met = goal, map[bool]string{true: "yes", false: "no"}[met]
	return r
}

type report struct {
	Machine machine `json:"machine"`
	Quick   bool    `json:"quick"`
	Rounds  int     `json:"rounds"`
	Rows    []row   `json:"rows"`
}

// machine says where and when the figures were taken.
type machine struct {
	At         time.Time `json:"at"`
	CPUs       int       `json:"cpus"`
	CPU        string    `json:"cpu"`
	MemoryGB   float64   `json:"memory_gb"`
	Kernel     string    `json:"kernel"`
	FileSystem string    `json:"file_system"`
	Go         string    `json:"go"`
	LoadBefore string    `json:"load_before"` // 1, 5 and 15 minutes
	LoadAfter  string    `json:"load_after"`
}

func (r report) writeTable(w io.Writer) error {
	m := r.Machine
	fmt.Fprintf(w, "%s · %d × %s · %.0f GB · %s · %s · %s · %d rounds\n",
		m.At.Format("2006-01-02 15:04 MST"), m.CPUs, m.CPU, m.MemoryGB, m.Kernel, m.FileSystem, m.Go, r.Rounds)
	fmt.Fprintf(w, "load %s before, %s after\n", m.LoadBefore, m.LoadAfter)
	if r.Quick {
		fmt.Fprintln(w, "quick: too few samples for the record")
	}
	fmt.Fprintln(w)
	table := tabwriter.NewWriter(w, 0, 0, 1, ' ', 0)
	fmt.Fprintln(table, "| metric\t| what\t| floor\t| floor is\t| ours\t| ratio\t| goal\t| met\t|")
	fmt.Fprintln(table, "|---\t|---\t|---\t|---\t|---\t|---\t|---\t|---\t|")
	for _, row := range r.Rows {
		floor, against, ratio := "–", "–", "–"
		if row.Floor != 0 {
			floor, against, ratio = figure(row.Floor, row.Unit), row.Against, fmt.Sprintf("%.2f", row.Ratio)
		}
		fmt.Fprintf(table, "| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t| %s\t|\n", row.ID, row.What, floor, against,
			figure(row.Ours, row.Unit), ratio, cmp.Or(row.Goal, "–"), cmp.Or(row.Met, "–"))
	}
	return table.Flush()
}

func figure(value float64, unit string) string {
	switch {
	case unit == unitCount:
		return fmt.Sprint(int(value))
	case unit == unitRate && value >= 10_000:
		return fmt.Sprintf("%.0f k%s", value/1000, unit)
	case value >= 100:
		return fmt.Sprintf("%.0f %s", value, unit)
	case value >= 10:
		return fmt.Sprintf("%.1f %s", value, unit)
	}
	return fmt.Sprintf("%.2f %s", value, unit)
}

func describeMachine(dir string) machine {
	m := machine{At: time.Now(), CPUs: runtime.NumCPU(), CPU: "unknown CPU", Go: runtime.Version(),
		LoadBefore: loadAverage(), FileSystem: "unknown"}
	text, _ := os.ReadFile("/proc/cpuinfo")
	if found := regexp.MustCompile(`model name\s*: (.*)`).FindSubmatch(text); found != nil {
		m.CPU = string(found[1])
	}
	var name unix.Utsname
	if unix.Uname(&name) == nil {
		m.Kernel = "Linux " + unix.ByteSliceToString(name.Release[:])
	}
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) == nil {
		m.MemoryGB = float64(info.Totalram) * float64(info.Unit) / 1e9
	}
	if kind, err := exec.Command("findmnt", "-no", "FSTYPE", "-T", dir).Output(); err == nil {
		m.FileSystem = strings.TrimSpace(string(kind))
	}
	return m
}

func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
