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
	"github.com/pcs-capacity/pcs-capacity/ec2"
	"github.com/pcs-capacity/pcs-capacity/internal/awssim"
	"github.com/pcs-capacity/pcs-capacity/internal/state"
)

func TestIntents(t *testing.T) {
	folder := Intents{state.Dir(t.TempDir())}
	if got, err := folder.All(); err != nil || len(got) != 0 {
		t.Fatalf("no intents yet: %v, %v", got, err)
	}
	fee, _ := capacity.ParseMoney("12345.67", capacity.USD)
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	second := Intent{ID: "a", Kind: BuyBlock, Phase: Sending, At: at.Add(time.Hour), Fee: fee, Offering: capacity.Offering{ID: "cb-1", Fee: fee}}
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
	if diff := cmp.Diff([]Intent{first, second}, got, cmp.Comparer(func(a, b capacity.Money) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	// What is no intent hides none: here the rest of a write that was cut off, and somebody's notes.
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

// A fee is recorded for a block that was bought elsewhere, and for nothing else.
func TestRecordFee(t *testing.T) {
	const odcr = "cr-0e2000000000000c3"
	w := newWorld(t, func(s *awssim.Scenario) {
		s.Regions[0].Reservations = append(s.Regions[0].Reservations, awssim.ReservationScenario{ID: odcr, Kind: "odcr", Type: "g6.12xlarge", Zone: "us-east-2b", Count: 1})
	})
	b := w.buyer()
	i, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "100"))
	if err != nil || i.Kind != RecordedFee || i.Phase != Done || i.Reservation != dollarBlock || i.Fee != usd(t, "100") || i.At.Sub(opening).Abs() > time.Minute || strings.Contains(w.said(), "replaced") {
		t.Fatalf("%v, %+v; said: %s", err, i, w.said())
	}
	if _, err := b.RecordFee(t.Context(), yuanBlock, money(t, "7", "CNY")); err != nil || strings.Contains(w.said(), "replaced") {
		t.Errorf("of another block: %v; said: %s", err, w.said())
	}
	if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); err != nil || !strings.Contains(w.said(), "Before, 100.00 USD was recorded at ") {
		t.Errorf("%v; said: %s", err, w.said())
	}
	w.sim.Clock().Advance(time.Minute)
	if _, err := w.aws.Reservation(t.Context(), yuanBlock); err != nil { // tells the time
		t.Fatal(err)
	}
	if _, err := b.RecordFee(t.Context(), yuanBlock, money(t, "8", "CNY")); err != nil || !strings.Contains(w.said(), "Before, 7.00 CNY was recorded at ") {
		t.Errorf("%v; said: %s", err, w.said())
	}
	if _, err := b.RecordFee(t.Context(), yuanBlock, money(t, "9", "CNY")); err != nil || !strings.Contains(w.said(), "Before, 8.00 CNY was recorded at ") {
		t.Errorf("of the newer one: %v; said: %s", err, w.said())
	}
	all, err := b.intents().All()
	if err != nil || len(all) != 2 {
		t.Errorf("%+v, %v", all, err)
	}
	for phase, recorded := range map[Phase]bool{Bought: false, Done: false, Failed: true} {
		if err := b.intents().Write(Intent{ID: "buy-1", Kind: BuyBlock, Phase: phase, Reservation: dollarBlock, Fee: usd(t, "960")}); err != nil {
			t.Fatal(err)
		}
		if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); (err == nil) != recorded || err != nil && !strings.Contains(err.Error(), "for 960.00 USD, which is recorded already") {
			t.Errorf("bought here, %s: %v", phase, err)
		}
	}
	if err := b.intents().Write(Intent{ID: "buy-1", Kind: ExtendBlock, Phase: Done, Reservation: dollarBlock}); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); err != nil {
		t.Errorf("an extension is no purchase: %v", err)
	}
	if _, err := b.RecordFee(t.Context(), odcr, usd(t, "1")); err == nil || !strings.Contains(err.Error(), "billed by the hour") {
		t.Errorf("an ODCR: %v", err)
	}
	if _, err := b.RecordFee(t.Context(), "cr-0ffffffffffffffff", usd(t, "1")); ec2.Code(err) != reservationNotFound || !strings.Contains(err.Error(), "nothing was recorded") {
		t.Errorf("nothing of that id: %v", err)
	}
	unlock, err := b.intents().Lock()
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	if _, err := b.RecordFee(t.Context(), dollarBlock, usd(t, "200")); err == nil || !strings.Contains(err.Error(), "the fee is recorded in state_dir") {
		t.Errorf("while somebody buys: %v", err)
	}
}
