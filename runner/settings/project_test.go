package settings

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"holon/test/expect"
)

// projectValues are what a hostile repository may write for any key.
var projectValues = []string{
	"0", "-0", "1", "-1", "3", "1000000000", "9223372036854775807", "99999999999999999999", "0.001", "1e300", ".nan",
	".inf", "-.inf", "NaN", "Inf", "''", "null", "true", "false",
	"unlimited", "none", "auto", "local", "docker", "bridge", "host", "1s", "1h", "100000h", "-1h", "1k", "64m", "1g",
	"4096t", "-1g", "0g", "1b", "[]", "[a]", "['/etc']", "{a: 1}",
	"openai/x", "scripted/demo", "scripted/turn.yaml", "http://evil.example/v1", "0:0",
}

// own are files of persons: without anything, with tight and with wide limits.
var own = []string{
	`{}`,
	`{"engine": "docker", "include_dirty": false, "timeout": "2s", "max_rounds": 2, "max_tool_calls": 2, ` +
		`"max_output_bytes": "2k", "memory": "16m", "cpus": 0.5, "disk": "1m",
	  "budgets": {"run": {"max_tokens": 2, "max_requests": 2, "max_cost": 0.000002}}}`,
	`{"engine": "local", "network": "bridge", "timeout": "1000h", "max_rounds": 100000, "memory": "1t", ` +
		`"cpus": 4000, "disk": "1p", "budgets": {"run": {"max_tokens": 9007199254740993}}}`,
}

// person writes a person's file to a new directory.
func person(t *testing.T, user string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(dir, UserFile), []byte(user), 0o600))
	expect.NoError(t, os.Mkdir(filepath.Join(dir, filepath.Dir(ProjectFile)), 0o700))
	return dir
}

// loadProject reads a repository's file over the person's in dir.
func loadProject(t *testing.T, dir, project string) *Loaded {
	t.Helper()
	path := filepath.Join(dir, ProjectFile)
	os.Remove(path) // some file systems write a file that is truncated to the disk at once
	expect.NoError(t, os.WriteFile(path, []byte(project), 0o600))
	return Load(Sources{File: filepath.Join(dir, UserFile), Project: dir})
}

// yamlOf nests a value under the segments of a key.
func yamlOf(k *key, name, value string) string {
	var b strings.Builder
	segments := k.segments()
	for i, segment := range segments {
		if segment == "*" {
			segment = name
		}
		fmt.Fprintf(&b, "%s%s:", strings.Repeat("  ", i), segment)
		if i < len(segments)-1 {
			b.WriteByte('\n')
		}
	}
	return b.String() + " " + value + "\n"
}

// sampleName returns a name that the "*" of the key may stand for, "" without one.
func (k *key) sampleName() string {
	return map[group]string{ofProvider: "x", ofModel: "x/y"}[k.group()]
}

// Few keys are free, and a limit has a type that can be compared.
func TestProjectRules(t *testing.T) {
	for _, k := range keys() {
		free := k.project == ruleFree || k.project == ruleFolder
		if free && k.name != "image" && k.name != "skills" {
			t.Errorf("%s is free: a repository could loosen with it", k.name)
		}
		s := Default()
		if k.project == ruleLower && math.IsNaN(k.limit(k.value(&s, k.sampleName()))) {
			t.Errorf("%s cannot be compared", k.name)
		}
	}
}

// No value that a repository writes for any key loosens a setting: limits are lower or the same, and all but
// a few other keys keep their values.
func TestProjectOnlyTightens(t *testing.T) {
	for _, user := range own {
		dir := person(t, user)
		before := loadProject(t, dir, "")
		expect.NoError(t, before.Err())
		was := before.clone()
		old := values(&was)
		for _, k := range keys() {
			for _, value := range projectValues {
				after := loadProject(t, dir, yamlOf(k, k.sampleName(), value))
				now := after.clone()
				for i, changed := range values(&now) {
					if !reflect.DeepEqual(old[i], changed) {
						tighter(t, k, value, keys()[i], &was, &now)
					}
				}
				wantRefused(t, k, value, before, after)
			}
		}
	}
}

// values returns the values of all keys, with those of the providers and models that stand for all.
func values(s *Settings) (list []any) {
	for _, k := range keys() {
		list = append(list, shown(k.value(s, k.sampleName())))
	}
	return list
}

// tighter checks that a repository's value of the key set, which changed the key k, confines more than before.
func tighter(t *testing.T, set *key, value string, k *key, was, now *Settings) {
	t.Helper()
	name := k.sampleName()
	old, changed := k.text(was, name), k.text(now, name)
	switch {
	case k != set:
		t.Errorf("%s: %s changes %s from %q to %q", set.name, value, k.name, old, changed)
	case k.project == ruleLower:
		if limit := k.limit(k.value(now, name)); limit <= 0 || limit >= k.limit(k.value(was, name)) {
			t.Errorf("%s: %s raises it from %q to %q", k.name, value, old, changed)
		}
	case k.project == ruleFolder, k.project == ruleFree, k.project != ruleNever && changed == k.project:
	default:
		t.Errorf("%s: %s loosens it from %q to %q", k.name, value, old, changed)
	}
}

// wantRefused checks that a value which a repository may not decide is refused, and that each problem names its
// remedy and the key.
func wantRefused(t *testing.T, set *key, value string, before, after *Loaded) {
	t.Helper()
	if set.project == ruleNever && (after.Err() == nil && before.Origin(set.name).Layer != LayerUser ||
		!reflect.DeepEqual(before.Settings, after.Settings)) {
		t.Errorf("%s: %s is not refused", set.name, value)
	}
	for _, p := range after.Problems {
		if p.Remedy == "" || p.Key != "" && !strings.HasPrefix(p.Key, set.full(set.sampleName())) {
			t.Errorf("%s: %s: %+v", set.name, value, p)
		}
	}
}

// A lower limit counts, in each unit.
func TestProjectLowers(t *testing.T) {
	lower := map[string]string{
		"timeout": "1s", "max_rounds": "1", "max_tool_calls": "1", "max_output_bytes": "1k", "memory": "8m",
		"cpus": "0.25", "disk": "1k",
		"budgets.run.max_tokens": "1", "budgets.run.max_requests": "1", "budgets.run.max_cost": "0.000001",
	}
	for _, k := range keys() {
		if k.project != ruleLower {
			continue
		}
		for _, user := range own {
			l := loadProject(t, person(t, user), yamlOf(k, "", lower[k.name]))
			if l.Err() != nil || k.text(&l.Settings, "") != lower[k.name] {
				t.Errorf("%s: %s does not count: %v, %s", k.name, lower[k.name], l.Err(), k.text(&l.Settings, ""))
			}
		}
	}
}

// A repository's file lies in the repository, also where its directory is a link.
func TestProjectBehindLink(t *testing.T) {
	outside := t.TempDir()
	expect.NoError(t, os.WriteFile(filepath.Join(outside, "config.yaml"), []byte("timeout: 1s\n"), 0o600))
	for name, tt := range map[string]struct {
		target string // of .holon
		fails  bool
		counts bool
	}{"outside": {outside, true, false}, "inside": {"own", false, true}, "nowhere": {"gone", false, false}} {
		top := t.TempDir()
		expect.NoError(t, os.Mkdir(filepath.Join(top, "own"), 0o700))
		expect.NoError(t, os.WriteFile(filepath.Join(top, "own", "config.yaml"), []byte("timeout: 1s\n"), 0o600))
		expect.NoError(t, os.Symlink(tt.target, filepath.Join(top, filepath.Dir(ProjectFile))))
		l := Load(Sources{Project: top})
		expect.Equal(t, name+": is refused", l.Err() != nil, tt.fails)
		expect.Equal(t, name+": counts", l.Origin("timeout").Layer == LayerProject, tt.counts)
	}
}
