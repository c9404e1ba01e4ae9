package lifecycle

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// TestReportSaysThatThereIsNothing: programs that read it find every key.
func TestReportSaysThatThereIsNothing(t *testing.T) {
	text, err := json.Marshal((passOf(Sources{}, Seen{Snap: &capacity.Snapshot{}})).report())
	if err != nil || !strings.Contains(string(text), `"done":[],"problems":[]`) {
		t.Errorf("%s, %v", text, err)
	}
}
