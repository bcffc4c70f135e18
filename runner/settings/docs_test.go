package settings

import (
	"os"
	"strings"
	"testing"
)

// The documentation names every key and its variable.
func TestKeysAreDocumented(t *testing.T) {
	data, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "### Keys")
	for _, k := range keys {
		name := strings.NewReplacer("providers.*", "providers.X", "models.catalog.*",
			"models.catalog.PROVIDER/MODEL").Replace(k.name)
		short := "…." + strings.TrimPrefix(name, "models.catalog.PROVIDER/MODEL.")
		if !strings.Contains(table, "`"+name+"`") && !strings.Contains(table, "`"+short+"`") {
			t.Errorf("%s is not in docs/reference/configuration.md", name)
		}
		if k.group() == plain && k.env != "" && !strings.Contains(string(data), k.env) {
			t.Errorf("%s is not in docs/reference/configuration.md", k.env)
		}
	}
}
