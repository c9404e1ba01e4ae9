package market

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pcs-capacity/pcs-capacity/capacity"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func TestIntents(t *testing.T) {
	folder := Intents{state.Dir(t.TempDir())}
	if got, err := folder.All(); err != nil || len(got) != 0 {
		t.Fatalf("no intents yet: %v, %v", got, err)
	}

	fee, _ := capacity.ParseMoney("12345.67", capacity.USD)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

	second := Intent{
		ID:       "a",
		Kind:     BuyBlock,
		Phase:    Sending,
		At:       at.Add(time.Hour),
		Fee:      fee,
		Offering: capacity.Offering{ID: "cb-1", Fee: fee},
	}
	first := Intent{ID: "b", Kind: ExtendBlock, Phase: Done, At: at, OldEnd: at, NewEnd: at.Add(24 * time.Hour)}
	for _, i := range []Intent{second, first} {
		if err := folder.Write(i); err != nil {
			t.Fatal(err)
		}
	}

	second.Phase, second.Reservation = Done, "cr-0123456789abcdef0"
	if err := folder.Write(second); err != nil {
		t.Fatal(err)
	}

	got, err := folder.All()
	if err != nil {
		t.Fatal(err)
	}

	if diff := cmp.Diff([]Intent{first, second}, got, cmp.Comparer(func(a, b capacity.Money) bool {
		return a == b
	})); diff != "" {
		t.Error(diff)
	}
	// Other files hide no intent: here an unfinished write, and somebody's notes.
	for _, name := range []string{".a.json", "a.txt"} {
		if err := os.WriteFile(filepath.Join(filepath.Dir(folder.Path("a")), name), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
	}

	if got, err := folder.All(); err != nil || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}

	if text, err := os.ReadFile(folder.Path("a")); err != nil || !strings.HasSuffix(string(text), "\n}\n") {
		t.Errorf("the file ends within a line: %q, %v", text, err)
	}
	// One that is deleted while they are read hides no other.
	if err := os.Symlink("gone", folder.Path("0")); err != nil {
		t.Fatal(err)
	}

	if got, err := folder.All(); err != nil || len(got) != 2 {
		t.Errorf("%+v, %v", got, err)
	}

	if err := os.WriteFile(folder.Path("c"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}

	if _, err := folder.All(); err == nil || !strings.Contains(err.Error(), "before you buy") {
		t.Errorf("an intent that cannot be read is passed over: %v", err)
	}
}

// sbatch reads state_dir as its user, also where a purchase has made it.
func TestStateDirIsOpenAfterAPurchase(t *testing.T) {
	old := syscall.Umask(0o077)
	defer syscall.Umask(old)

	dir := filepath.Join(t.TempDir(), "state")
	if err := (Intents{state.Dir(dir)}).Write(Intent{ID: "i", Kind: BuyBlock}); err != nil {
		t.Fatal(err)
	}

	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}
