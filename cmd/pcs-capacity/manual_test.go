package main

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/manual"
)

// The manual page of explain has each code with what it means and what to do, and no other page has them.
func TestManualListsCodes(t *testing.T) {
	parser, err := newParser(t.Context(), new(CLI))
	if err != nil {
		t.Fatal(err)
	}

	pages := manual.Pages(parser.Model)
	_, list, found := strings.Cut(pages["pcs-capacity-explain"], "\n# CODES\n\n")
	list, _, ends := strings.Cut(list, "\n# SEE ALSO\n")
	if !found || !ends {
		t.Fatalf("no list of codes in\n%s", pages["pcs-capacity-explain"])
	}

	plain := strings.ReplaceAll(list, `\`, "")
	for _, m := range capacity.Codes {
		entry := fmt.Sprintf("**%s**\n: %s What to do: %s\n", m.Code, m.Text, m.Do)
		if !strings.Contains(plain, entry) {
			t.Errorf("the list has no entry %q", entry)
		}
	}

	escaped := regexp.MustCompile("`[^`\n]*\\\\[^`\n]*`") // Markdown shows the backslash there
	for name, page := range pages {
		if bad := escaped.FindString(page); bad != "" {
			t.Errorf("%s: %s", name, bad)
		}

		if strings.Contains(page, "\n# CODES\n") != (name == "pcs-capacity-explain") {
			t.Errorf("%s: %s", name, page)
		}
	}
}
