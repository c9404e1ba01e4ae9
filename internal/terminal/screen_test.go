package terminal_test

import (
	"os"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

func TestScreenOffATerminal(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "out")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	for name, c := range map[string]struct {
		env  map[string]string
		want terminal.Screen
	}{
		"nothing is known":        {nil, terminal.Screen{Width: 80}},
		"COLUMNS":                 {map[string]string{"COLUMNS": "132"}, terminal.Screen{Width: 132}},
		"COLUMNS is not a number": {map[string]string{"COLUMNS": "wide"}, terminal.Screen{Width: 80}},
		"COLUMNS is 0":            {map[string]string{"COLUMNS": "0"}, terminal.Screen{Width: 80}},
		"UTF-8":                   {map[string]string{"LANG": "en_US.UTF-8"}, terminal.Screen{Width: 80, Unicode: true}},
		"utf8":                    {map[string]string{"LC_CTYPE": "de_DE.utf8"}, terminal.Screen{Width: 80, Unicode: true}},
		"LC_ALL goes before LANG": {map[string]string{"LC_ALL": "C", "LANG": "en_US.UTF-8"}, terminal.Screen{Width: 80}},
		"LC_CTYPE before LANG":    {map[string]string{"LC_CTYPE": "C.UTF-8", "LANG": "C"}, terminal.Screen{Width: 80, Unicode: true}},
		"an empty one is not set": {map[string]string{"LC_ALL": "", "LANG": "C.UTF-8"}, terminal.Screen{Width: 80, Unicode: true}},
	} {
		getenv := func(name string) string { return c.env[name] }
		if got := terminal.ScreenOf(file, getenv); got != c.want {
			t.Errorf("%s: to a file: %+v, want %+v", name, got, c.want)
		}
		if got := terminal.ScreenOf(new(strings.Builder), getenv); got != c.want {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
