package terminal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

func TestWidthfATerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		env  map[string]string
		want int
	}{
		"nothing is known":        {nil, 80},
		"COLUMNS":                 {map[string]string{"COLUMNS": "132"}, 132},
		"COLUMNS is not a number": {map[string]string{"COLUMNS": "wide"}, 80},
		"COLUMNS is 0":            {map[string]string{"COLUMNS": "0"}, 80},
	} {
		getenv := func(name string) string { return c.env[name] }
		if got := terminal.Width(file, getenv); got != c.want {
			t.Errorf("%s: to a file: %d, want %d", name, got, c.want)
		}
		if got := terminal.Width(new(strings.Builder), getenv); got != c.want {
			t.Errorf("%s: %d, want %d", name, got, c.want)
		}
	}
}
