package capacity

import (
	"slices"
	"strings"
	"testing"
)

// Types at one price, and those without one, stay as the settings have them.
func TestCompareTypes(t *testing.T) {
	prices := map[string]Money{}
	for name, usd := range map[string]string{"p5": "55.04", "p5en": "41.60", "p4d": "21.96", "p4de": "41.60"} {
		price, err := ParseMoney(usd, USD)
		if err != nil {
			t.Fatal(err)
		}
		prices[name] = price
	}
	for order, want := range map[TypeOrder]string{
		"":              "new p5 p5en older p4de p4d",
		ConfiguredOrder: "new p5 p5en older p4de p4d",
		CheapestFirst:   "p4d p5en p4de p5 new older",
	} {
		types := strings.Fields("new p5 p5en older p4de p4d")
		slices.SortStableFunc(types, Reserve{Order: order, Prices: prices}.CompareTypes)
		if got := strings.Join(types, " "); got != want {
			t.Errorf("%q: %s, want %s", order, got, want)
		}
	}
}
