package market

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestCache(t *testing.T) {
	c := Cache(filepath.Join(t.TempDir(), "not there yet"))
	now := time.Now()
	oldest := now.Add(-time.Minute)
	var got []string
	if _, ok := c.Get("question", oldest, now, &got); ok {
		t.Error("an answer before any was put")
	}
	if err := c.Put("question", []string{"a", "b"}, oldest, now); err != nil {
		t.Fatal(err)
	}
	if at, ok := c.Get("question", oldest, now, &got); !ok || !at.Equal(now) || len(got) != 2 {
		t.Errorf("got %v from %s, %v", got, at, ok)
	}
	for name, at := range map[string]time.Time{"later": now.Add(time.Minute + 1), "before, as the clock was set back": now.Add(-time.Second)} {
		if _, ok := c.Get("question", at.Add(-time.Minute), at, &got); ok {
			t.Errorf("%s: an answer", name)
		}
	}
	if _, ok := c.Get("another", oldest, now, &got); ok {
		t.Error("the answer to another question")
	}
	if err := c.Put("another", 1, now.Add(time.Hour), now); err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(string(c) + "/*"); len(files) != 1 {
		t.Errorf("old answers are still there: %v", files)
	}
	path, err := c.path("another")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, ok := c.Get("another", oldest, now, &got); ok {
		t.Error("half a file is an answer")
	}
}

func TestNoCache(t *testing.T) {
	t.Chdir(t.TempDir())
	now := time.Now()
	if err := Cache("").Put("question", 1, now, now); err != nil {
		t.Error(err)
	}
	var got int
	if _, ok := Cache("").Get("question", now, now, &got); ok {
		t.Error("it keeps something")
	}
	if files, _ := filepath.Glob("*"); len(files) > 0 {
		t.Errorf("files %v", files)
	}
	if err := Cache(".").Put("question", 1, now, now); err != nil {
		t.Fatal(err)
	}
	if _, ok := Cache("").Get("question", now, now, &got); ok {
		t.Error("it reads what is in the working directory")
	}
}

func TestUserCache(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "/somewhere")
	if got := UserCache(); got != "/somewhere/pcs-capacity" {
		t.Errorf("%q", got)
	}
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	if got := UserCache(); got != "" {
		t.Errorf("without a home: %q", got)
	}
}
