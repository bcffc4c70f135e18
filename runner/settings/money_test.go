package settings_test

import (
	"testing"

	"holon/runner/settings"
)

func TestMoney(t *testing.T) {
	for text, want := range map[string]settings.Money{"0": 0, "1": 1_000_000, "2.50": 2_500_000, "0.000001": 1,
		"12.345678": 12_345_678} {
		var got settings.Money
		if err := got.UnmarshalText([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", ".5", "1.", "-1", "+1", "1e3", "1.2345678", "1,5", "0x1", "9999999999999",
		"1.2.3", " 1"} {
		var got settings.Money
		if err := got.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for m, want := range map[settings.Money]string{0: "0", 1: "0.000001", 2_500_000: "2.5", 10_000_000: "10"} {
		if m.String() != want {
			t.Errorf("%d is %s", m, m)
		}
	}
}
