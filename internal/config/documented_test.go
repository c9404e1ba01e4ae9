package config

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
)

// documented is the example of docs/configuration.md. The config.toml of the packages and
// their manual page are made of it.
func documented(t testing.TB) string {
	t.Helper()

	text, err := os.ReadFile("../../docs/configuration.md")
	if err != nil {
		t.Fatal(err)
	}

	_, rest, _ := strings.Cut(string(text), "```toml\n")

	example, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("docs/configuration.md has no toml example")
	}

	return example
}

// documentedSettings are the settings of the example, those in comments too, with their
// lines, and whether something is said about each: on its line, or on that before it.
func documentedSettings(t testing.TB) (lines map[string]int, explained map[string]bool) {
	t.Helper()

	lines, explained = map[string]int{}, map[string]bool{}
	table, before := "", ""
	setting := regexp.MustCompile(`^(# )?([a-z_]+) +=`)
	for n, line := range strings.Split(documented(t), "\n") {
		line = strings.TrimSpace(line)
		if m := setting.FindStringSubmatch(line); m != nil {
			key := table + m[2]
			if lines[key] != 0 {
				t.Errorf("%s is documented twice", key)
			}

			lines[key] = n + 1
			explained[key] = strings.Contains(line[len(m[0]):], " # ") ||
				strings.HasPrefix(before, "# ") && !setting.MatchString(before)
		} else if strings.HasPrefix(line, "[") {
			table = strings.Trim(line, "[]") + "."
		}

		before = line
	}

	return lines, explained
}

// knownSettings are the settings that the types have: every key that is not a table.
func knownSettings(t reflect.Type, prefix string) []string {
	var keys []string
	for i := range t.NumField() {
		f := t.Field(i)

		key, _, _ := strings.Cut(f.Tag.Get("toml"), ",")
		if key == "-" {
			continue
		}

		inner := f.Type
		if inner.Kind() == reflect.Slice {
			inner = inner.Elem()
		}

		if inner.Kind() == reflect.Struct && inner.Field(0).Tag.Get("toml") != "" {
			keys = append(keys, knownSettings(inner, prefix+key+".")...)
			continue
		}

		keys = append(keys, prefix+key)
	}

	return keys
}

// Every setting is in the documentation and explained there, and nothing else is.
func TestEverySettingIsDocumented(t *testing.T) {
	lines, explained := documentedSettings(t)
	known := knownSettings(reflect.TypeFor[Config](), "")
	slices.Sort(known)

	if got := slices.Sorted(maps.Keys(lines)); !slices.Equal(got, known) {
		t.Errorf(
			"docs/configuration.md has the settings\n%s\nthe types have\n%s",
			strings.Join(got, "\n"),
			strings.Join(known, "\n"),
		)
	}

	for key := range lines {
		if !explained[key] {
			t.Errorf("docs/configuration.md says nothing about %s", key)
		}
	}
}

// Whatever key is misspelt is refused, with its line and the right one.
func TestEveryMisspeltSettingIsNamed(t *testing.T) {
	lines, _ := documentedSettings(t)
	if len(lines) < 20 {
		t.Fatalf("%d settings", len(lines))
	}

	for key, n := range lines {
		last := key[strings.LastIndex(key, ".")+1:]
		wrong := last[:1] + "x" + last[1:]
		text := strings.Split(documented(t), "\n")
		text[n-1] = strings.Replace(strings.Replace(text[n-1], "# "+last, last, 1), last, wrong, 1)

		_, err := Load(write(t, map[string]string{"config.toml": strings.Join(text, "\n")}))
		want := fmt.Sprintf(
			`config.toml:%d: unknown key %q; did you mean %q?`,
			n,
			strings.TrimSuffix(key, last)+wrong,
			last,
		)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %s", key, err, want)
		}
	}
}

// Whatever a file says, it is refused with its name and a line that it has, or it is taken:
// then what `config` shows of it means the same.
func FuzzSettings(f *testing.F) {
	f.Add("")
	f.Add(documented(f))
	f.Add(goodPartition)
	f.Add("[[partition]]\nname = 'a'\n[partition.node_group]\nx.y = 1\n")
	f.Add("submit = { strikt = true }\n\"timing\".poll = \"1d\"\n")
	f.Add("[timing]\npoll = \"\"\"\npol = 1\"\"\"\npol = 1\n")
	f.Add("region = \"us-e\\")
	path := filepath.Join(f.TempDir(), "config.toml")
	place := regexp.MustCompile(`^` + regexp.QuoteMeta(path) + `(:(\d+))?: `)
	f.Fuzz(func(t *testing.T, text string) {
		first := Default()
		if _, errs := decodeText(path, text, first); len(errs) > 0 {
			for _, err := range errs {
				m := place.FindStringSubmatch(err.Error())
				if m == nil {
					t.Fatalf("%q does not say where it is", err)
				}

				var n int
				if m[2] != "" {
					_, _ = fmt.Sscan(m[2], &n)
				}

				if m[2] != "" && (n < 1 || n > strings.Count(text, "\n")+1) {
					t.Fatalf("%q: the file has no such line", err)
				}
			}

			return
		}

		var shown strings.Builder
		if err := toml.NewEncoder(&shown).Encode(first); err != nil {
			t.Fatal(err)
		}

		second := Default()
		if _, errs := decodeText(path, shown.String(), second); len(errs) > 0 {
			t.Fatalf("what is shown is not taken: %v\n%s", errs, shown.String())
		}

		var again strings.Builder
		if err := toml.NewEncoder(&again).Encode(second); err != nil {
			t.Fatal(err)
		}

		if shown.String() != again.String() {
			t.Fatalf("shown as\n%s\nwhich is read as\n%s", shown.String(), again.String())
		}
	})
}
