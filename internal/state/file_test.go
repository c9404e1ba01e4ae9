package state

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

// Programs of another release read and write the same files.
func TestFormsOfFiles(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		name, text string
		write      func(Dir) error
		read       func(Dir) error
	}{
		{"private/notices.json", `{"a":"2026-03-01T12:00:00Z"}`,
			func(d Dir) error { return d.KeepNotices(map[string]time.Time{"a": at}) },
			func(d Dir) error { _, err := d.Notices(); return err }},
		{"private/setbacks.json", "{\n  \"a\": {\n    \"since\": \"2026-03-01T12:00:00Z\",\n    \"tried\": \"2026-03-01T12:00:00Z\",\n    \"problem\": \"b\"\n  }\n}",
			func(d Dir) error { return d.KeepSetbacks(map[string]Setback{"a": {at, at, "b"}}) },
			func(d Dir) error { _, err := d.Setbacks(); return err }},
		{"private/torn-down.json", `["a"]`,
			func(d Dir) error { return d.KeepTornDown("a") },
			func(d Dir) error { _, err := d.TornDown(); return err }},
		{"private/full.json", `{"a":{"nodes":2,"until":"2026-03-01T13:00:00Z"}}`,
			func(d Dir) error { return d.MarkFull("a", 2, at, at.Add(time.Hour)) },
			func(d Dir) error { _, err := d.Full(at); return err }},
		{"private/held.json", "null",
			func(d Dir) error {
				return d.changeHeld(at, func([]capacity.Held) ([]capacity.Held, error) { return nil, nil })
			},
			func(d Dir) error { _, err := d.Held(at); return err }},
		{"private/marks.json", `{"1":{"fit":true}}`,
			func(d Dir) error { return d.KeepMarks(map[string]Mark{"1": {Fit: true}}) },
			func(d Dir) error { _, err := d.Marks(); return err }},
		{"hook.json", `{"account":"1"}`,
			func(d Dir) error { return d.KeepHook(HookAccess{Account: "1"}) },
			func(d Dir) error {
				_, err := d.LastHook()
				if errors.Is(err, fs.ErrNotExist) {
					return nil
				}
				return err
			}},
	} {
		d := Dir(t.TempDir())
		path := filepath.Join(string(d), c.name)
		if c.read != nil {
			if err := c.read(d); err != nil {
				t.Errorf("%s is not there: %v", c.name, err)
			}
		}
		if err := c.write(d); err != nil {
			t.Error(err)
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(c.name, privateFolder) {
			mode = 0o600
		}
		if info, err := os.Stat(path); err != nil || info.Mode() != mode {
			t.Errorf("%s: %v %v", c.name, info, err)
		}
		if text, err := os.ReadFile(path); err != nil || string(text) != c.text+"\n" {
			t.Errorf("%s: %q, %v", c.name, text, err)
		}
		if c.read == nil {
			continue
		}
		if err := c.read(d); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := os.WriteFile(path, []byte("{"), mode); err != nil {
			t.Fatal(err)
		}
		if err := c.read(d); err == nil || !strings.HasPrefix(err.Error(), "reading ") {
			t.Errorf("%s is broken: %v", c.name, err)
		}
	}
}
