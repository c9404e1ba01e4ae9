package state

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
)

func TestIntents(t *testing.T) {
	dir := Dir(t.TempDir())
	if got, err := dir.Intents(); err != nil || len(got) != 0 {
		t.Fatalf("no intents yet: %v, %v", got, err)
	}
	fee, _ := capacity.ParseMoney("12345.67", capacity.USD)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := Intent{ID: "a", Kind: Purchase, Phase: Sending, At: at.Add(time.Hour), Fee: fee, Offering: capacity.Offering{ID: "cb-1", Fee: fee}}
	first := Intent{ID: "b", Kind: Extension, Phase: Done, At: at, OldEnd: at, NewEnd: at.Add(24 * time.Hour)}
	for _, i := range []Intent{second, first} {
		if err := dir.WriteIntent(i); err != nil {
			t.Fatal(err)
		}
	}
	second.Phase, second.Reservation = Done, "cr-0123456789abcdef0"
	if err := dir.WriteIntent(second); err != nil {
		t.Fatal(err)
	}
	got, err := dir.Intents()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]Intent{first, second}, got, cmp.Comparer(func(a, b capacity.Money) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	if err := os.WriteFile(filepath.Join(string(dir), "intents", "c.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := dir.Intents(); err == nil || !strings.Contains(err.Error(), "before you buy") {
		t.Errorf("an intent that cannot be read is passed over: %v", err)
	}
}

func TestOnlyOneBuys(t *testing.T) {
	dir := Dir(t.TempDir())
	unlock, err := dir.LockIntents()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := dir.LockIntents(); err == nil {
		t.Error("two hold the lock")
	}
	unlock()
	again, err := dir.LockIntents()
	if err != nil {
		t.Fatalf("after unlock: %v", err)
	}
	again()
}
