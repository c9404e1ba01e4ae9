package market

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/google/renameio/v2"
)

// Cache is a folder that keeps answers for a while, for one user: ~/.cache/pcs-capacity. "" keeps
// nothing. It may be deleted at any time; after any error in it, AWS is asked.
type Cache string

// UserCache returns the cache of the current user; "" if there is no place for it.
func UserCache() Cache {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return Cache(filepath.Join(dir, "pcs-capacity"))
}

// entry is one file of a cache.
type entry struct {
	At     time.Time       `json:"at"`
	Answer json.RawMessage `json:"answer"`
}

// Get reads the answer to a question into answer, and when it was put. It reports false
// when there is none from the time between oldest and now.
func (c Cache) Get(question any, oldest, now time.Time, answer any) (at time.Time, ok bool) {
	path, err := c.path(question)
	if err != nil || c == "" {
		return time.Time{}, false
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, false
	}
	var e entry
	if json.Unmarshal(text, &e) != nil || e.At.Before(oldest) || e.At.After(now) ||
		json.Unmarshal(e.Answer, answer) != nil {
		return time.Time{}, false
	}
	return e.At, true
}

// Put keeps the answer to a question, and deletes answers from before oldest.
func (c Cache) Put(question, answer any, oldest, now time.Time) error {
	if c == "" {
		return nil
	}
	path, err := c.path(question)
	if err != nil {
		return err
	}
	text, err := json.Marshal(answer)
	if err == nil {
		text, err = json.Marshal(entry{now, text})
	}
	if err == nil {
		err = os.MkdirAll(string(c), 0o700)
	}
	if err != nil {
		return err
	}
	c.sweep(oldest)
	return renameio.WriteFile(path, text, 0o600, renameio.WithTempDir(filepath.Dir(path)))
}

func (c Cache) path(question any) (string, error) {
	text, err := json.Marshal(question)
	sum := sha256.Sum256(text)
	return filepath.Join(string(c), hex.EncodeToString(sum[:16])+".json"), err
}

// sweep deletes old files; it tries a failed deletion again next time.
func (c Cache) sweep(oldest time.Time) {
	paths, _ := filepath.Glob(filepath.Join(string(c), "*.json")) // the pattern is right
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.ModTime().Before(oldest) {
			_ = os.Remove(path)
		}
	}
}
