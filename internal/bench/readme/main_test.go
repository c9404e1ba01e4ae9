package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The page has the figures of the files, and nothing else.
func TestPageHasTheFiguresOfTheFiles(t *testing.T) {
	const top = "../../.."
	figures, machine, err := read(filepath.Join(top, results))
	if err != nil {
		t.Fatal(err)
	}
	if len(figures) != len(sources)+1 {
		t.Errorf("%d figures, not %d: a benchmark's file is missing", len(figures), len(sources)+1)
	}
	text, err := os.ReadFile(filepath.Join(top, page))
	if err != nil {
		t.Fatal(err)
	}
	if want, err := inserted(string(text), markdown(figures, machine)); err != nil || want != string(text) {
		t.Errorf("%s is not that of the files (%v): run make bench-readme", page, err)
	}
}

// A file that lacks a row, a column or a cell is not passed over.
func TestBrokenFiles(t *testing.T) {
	for name, text := range map[string]string{
		"no rows":   "# machine\nbeside  many/few\n",
		"a cell":    "# machine\nbeside  many/few\nlive instances of ours\n",
		"no column": "# machine\nbeside  few\nlive instances of ours  1.0\n",
		"no row":    "# machine\nbeside  many/few\nothers  1.0\n",
	} {
		folder := t.TempDir()
		if err := os.WriteFile(filepath.Join(folder, "resume-crowd.txt"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		if figures, _, err := read(folder); err == nil || !strings.Contains(err.Error(), "resume-crowd.txt") {
			t.Errorf("%s: %v, %v", name, figures, err)
		}
	}
}
