package terminal_test

import (
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/terminal"
)

type row struct {
	ID    string    `json:"id"`
	Count int       `json:"count"`
	Start time.Time `json:"start,omitzero"`
	Open  bool      `json:"open"`
	note
}

type note struct {
	Note string   `json:"note"`
	Tags []string `json:"tags"`
}

// First is the first of the tags.
func (n note) First() string { return append(n.Tags, "")[0] }

var rows = []row{
	{"cr-1", 4, time.Date(2026, 11, 20, 11, 30, 0, 0, time.UTC), true, note{`says "hi", <b>`, []string{"a", "b"}}},
	{"cr-22", 128, time.Time{}, false, note{}},
}

func TestFormats(t *testing.T) {
	for format, want := range map[terminal.Format]string{
		terminal.Table: `
ID     COUNT  START UTC    OPEN  NOTE            FIRST
cr-1       4  11-20 11:30  yes   says "hi", <b>  a
cr-22    128  -            no    -               -
`,
		terminal.CSV: `
id,count,start,open,note,tags
cr-1,4,2026-11-20T11:30:00Z,true,"says ""hi"", <b>",a b
cr-22,128,,false,,
`,
		terminal.JSON: `
[
  {
    "id": "cr-1",
    "count": 4,
    "start": "2026-11-20T11:30:00Z",
    "open": true,
    "note": "says \"hi\", <b>",
    "tags": [
      "a",
      "b"
    ]
  },
  {
    "id": "cr-22",
    "count": 128,
    "open": false,
    "note": "",
    "tags": null
  }
]
`,
		terminal.YAML: `
- id: cr-1
  count: 4
  start: "2026-11-20T11:30:00Z"
  open: true
  note: says "hi", <b>
  tags:
  - a
  - b
- id: cr-22
  count: 128
  open: false
  note: ""
  tags: null
`,
	} {
		var out strings.Builder

		term := &terminal.Terminal{Out: &out, Format: format, UTC: true}

		err := term.Rows(rows, "ID: ID; COUNT: Count; START: Start; OPEN: Open; NOTE: Note; FIRST: First")
		if err != nil {
			t.Fatal(err)
		}

		if diff := cmp.Diff(want[1:], out.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", format, diff)
		}
	}
}

// Programs get an amount as a number, with every digit; an unknown one is no number.
func TestAmountsAreNumbers(t *testing.T) {
	type priced struct {
		Fee capacity.Amount `json:"fee"`
	}

	million, err := capacity.ParseMoney("1234567.80", capacity.USD)
	if err != nil {
		t.Fatal(err)
	}

	for format, want := range map[terminal.Format]string{
		terminal.Table: "             FEE\n1,234,567.80 USD\n               -\n",
		terminal.CSV:   "fee\n1234567.80\n\n",
		terminal.JSON:  "[\n  {\n    \"fee\": 1234567.80\n  },\n  {\n    \"fee\": null\n  }\n]\n",
		terminal.YAML:  "- fee: 1.2345678e+06\n- fee: null\n",
	} {
		var out strings.Builder

		term := &terminal.Terminal{Out: &out, Format: format}

		err := term.Rows([]priced{{capacity.Amount{Money: million}}, {}}, "FEE: Fee")
		if err != nil || out.String() != want {
			t.Errorf("%s: %q, %v; want %q", format, out.String(), err, want)
		}
	}
}

func TestTagsInCSVAreInOrder(t *testing.T) {
	var out strings.Builder

	term := &terminal.Terminal{Out: &out, Format: terminal.CSV}
	err := term.Rows([]struct {
		Tags map[string]string `json:"tags"`
	}{{map[string]string{"team": "nlp", "Name": "a b"}}}, "")
	if want := "tags\nName=a b team=nlp\n"; err != nil || out.String() != want {
		t.Errorf("%q, %v; want %q", out.String(), err, want)
	}
}

func TestConfirm(t *testing.T) {
	for name, c := range map[string]struct {
		term terminal.Terminal
		ok   bool
		says string
	}{
		"typed":        {terminal.Terminal{CanAsk: true, In: strings.NewReader("yes\n")}, true, ""},
		"declined":     {terminal.Terminal{CanAsk: true, In: strings.NewReader("y\n")}, false, "nothing was done"},
		"end of input": {terminal.Terminal{CanAsk: true, In: strings.NewReader("")}, false, "nothing was done"},
		"--yes":        {terminal.Terminal{Yes: true}, true, ""},
		"no terminal":  {terminal.Terminal{In: strings.NewReader("yes\n")}, false, "add --yes"},
	} {
		var asked strings.Builder

		c.term.Err = &asked
		err := c.term.Confirm("Apply this plan?")
		if (err == nil) != c.ok || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", name, err)
		}

		if name == "declined" && !errors.Is(err, terminal.ErrDeclined) {
			t.Errorf("%s: %v is not ErrDeclined", name, err)
		}
	}
}

// Nothing is typed, and nothing ends the read: only the interrupt does.
func TestInterruptEndsAQuestion(t *testing.T) {
	silent, person := io.Pipe()
	defer person.Close()

	interrupted := make(chan struct{})

	term := terminal.Terminal{CanAsk: true, In: silent, Err: io.Discard, Interrupted: interrupted}
	answer := make(chan error, 1)
	go func() { answer <- term.Confirm("Apply this plan?") }()

	select {
	case err := <-answer:
		t.Fatalf("not asked: %v", err)
	case <-time.After(50 * time.Millisecond):
	}

	close(interrupted)

	select {
	case err := <-answer:
		if !errors.Is(err, terminal.ErrDeclined) {
			t.Errorf("%v is not ErrDeclined", err)
		}
	case <-time.After(10 * time.Second):
		t.Error("it still waits for an answer")
	}
}

func TestProgressOffATerminalIsLines(t *testing.T) {
	var err strings.Builder

	p := (&terminal.Terminal{Err: &err}).Start("waiting for payment")
	p.Now("waiting for payment")
	p.Now("scheduled")
	p.Done()

	if got := err.String(); got != "waiting for payment\nscheduled\n" {
		t.Errorf("%q", got)
	}
}

// A sentence is broken at blanks on a terminal, and whole elsewhere. No word is broken; what
// is to be typed can be typed as it is shown.
func TestSentencesFitTheTerminal(t *testing.T) {
	for said, want := range map[string]string{
		"one two three four five":             "one two three four\n  five",
		"one\n\ntwo three four five six":      "one\n\ntwo three four five\n  six",
		"  fee  1.00 USD for all":             "  fee  1.00 USD for\n       all",
		"  slot gpu: placed the fence":        "  slot gpu: placed\n    the fence",
		"see /a/folder/of/a/long/name for it": "see\n/a/folder/of/a/long/name\n  for it",
		"in /a/folder/of/19/cha":              "in\n /a/folder/of/19/cha",
		"12345678901234567890 a":              "12345678901234567890\n  a",
		"× × × × × × × × × ×":                 "× × × × × × × × × ×",
		"  pcs-capacity sync --watch -o json": "  pcs-capacity \\\n      sync --watch \\\n      -o json",
		"  sbatch --wrap 'a b c' -N 2 x":      "  sbatch \\\n    --wrap 'a b c' \\\n      -N 2 x",
	} {
		for width, want := range map[int]string{0: said, 20: want} {
			var out, err strings.Builder

			term := &terminal.Terminal{Out: &out, Err: &err, ErrWidth: width, OutWidth: width}
			term.Say("%s", said)
			term.Print("%s", said)

			if err.String() != want+"\n" || out.String() != err.String() {
				t.Errorf("%d columns: %q and %q, want %q", width, err.String(), out.String(), want)
			}
		}
	}
}

// A line of the demo is broken as a person would break it.
func TestCommandsFitTheTerminal(t *testing.T) {
	for width, want := range map[int]string{
		0:  `$ sync; sbatch -p gpu --wrap 'srun hostname; sleep' x`,
		40: "$ sync; sbatch -p gpu \\\n    --wrap 'srun hostname; sleep' x",
		20: "$ sync; sbatch \\\n    -p gpu \\\n--wrap 'srun hostname; sleep' \\\n    x",
	} {
		if got := terminal.WrapCommand(`$ sync; sbatch -p gpu --wrap 'srun hostname; sleep' x`, width); got != want {
			t.Errorf("%d columns:\n%s\nwant\n%s", width, got, want)
		}
	}
}

// Columns that say less make room, first those that go first; cells that may be broken
// take what is left; what has room again comes back.
func TestTableFitsTheTerminal(t *testing.T) {
	rows := []struct {
		ID, Note, More, Less string
	}{{"cr-1", "a long sentence about it, which goes on and on", "0123456789", "abc"}}
	for width, want := range map[int]string{
		0: "ID    NOTE                                            MORE        LESS\ncr-1  a long sentence about " +
			"it, which goes on and on  0123456789  abc\n",
		60: "ID    NOTE                                  MORE        LESS\ncr-1  a long sentence about it, which " +
			"goes  0123456789  abc\n      on and on\n",
		40: "ID    NOTE                          LESS\ncr-1  a long sentence about it,     abc\n      which goes on " +
			"and on\n",
		30: "ID    NOTE\ncr-1  a long sentence about\n      it, which goes on and on\n",
	} {
		var out strings.Builder
		if err := (&terminal.Terminal{
			Out:    &out,
			Format: terminal.Table,
			Width:  width,
		}).Rows(rows, "ID: ID; NOTE: Note wrap; MORE: More drop 1; LESS: Less drop 2"); err != nil ||
			out.String() != want {
			t.Errorf("%d columns:\n%s\nwant\n%s%v", width, out.String(), want, err)
		}
	}
}

// Columns are counted as a terminal draws them, and a word without a joint is cut where the room ends.
func TestTableOfWideCharacters(t *testing.T) {
	rows := []struct {
		Name, Note string
		Count      int
	}{
		{"予約", strings.Repeat("長", 13) + "x", 7},
		{"gpu", "", 12},
	}
	want := strings.Join([]string{
		"NAME  NOTE                      COUNT",
		"予約  長長長長長長長長長長長長      7",
		"      長x",
		"gpu   -                            12",
		"",
	}, "\n")

	var out strings.Builder

	screen := &terminal.Terminal{Out: &out, Format: terminal.Table, Width: 37}
	if err := screen.Rows(rows, "NAME: Name; NOTE: Note wrap; COUNT: Count"); err != nil || out.String() != want {
		t.Errorf("%s\nwant\n%s%v", out.String(), want, err)
	}
}

func TestWidthOfATerminal(t *testing.T) {
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

// screen is a stderr that several goroutines write.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func TestSlowShowsOnATerminalAfterASecond(t *testing.T) { synctest.Test(t, slowShows) }

func slowShows(t *testing.T) {
	var err screen

	s := (&terminal.Terminal{Err: &err, CanDraw: true}).Slow("asking 17 regions")
	s.Now("asked 1 of 17 regions")

	if got := err.String(); got != "" {
		t.Errorf("at once: %q", got)
	}

	time.Sleep(1100 * time.Millisecond) // of the bubble

	if got := err.String(); !strings.Contains(got, "asked 1 of 17 regions (1s)") {
		t.Fatalf("after a second: %q", got)
	}

	s.Now("asked 2 of 17 regions")
	s.Say("a sentence")
	s.Done()
	s.Done()

	if got := err.String(); !strings.HasSuffix(got, "\r\033[Ka sentence\n") {
		t.Errorf("%q", got)
	}
}

func TestSlowIsSilentOffATerminal(t *testing.T) {
	var err screen

	s := (&terminal.Terminal{Err: &err}).Slow("asking")
	s.Now("still asking")
	s.Say("a sentence")
	s.Done()

	if got := err.String(); got != "a sentence\n" {
		t.Errorf("%q", got)
	}
}
