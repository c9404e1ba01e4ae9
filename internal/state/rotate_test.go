package state

import (
	"bytes"
	"fmt"
	"os"
	"sync"
	"testing"
)

// Hooks that find the file too large at the same time set it aside once, and lose nothing.
func TestRotationByManyHooks(t *testing.T) {
	dir := Dir(t.TempDir())
	const old = "{\"hook\":\"resume\",\"message\":\"before\"}\n"
	if err := dir.WritePrivate("any", nil); err != nil { // makes the folder
		t.Fatal(err)
	}
	for round := range 20 {
		if err := os.WriteFile(dir.PrivatePath(recordFile), bytes.Repeat([]byte(old), maxRecords/len(old)+1), 0o640); err != nil {
			t.Fatal(err)
		}
		var hooks sync.WaitGroup
		start := make(chan struct{})
		for i := range 16 {
			hooks.Go(func() {
				<-start
				if err := dir.AppendRecords(Record{Hook: "suspend", Message: fmt.Sprint(i)}); err != nil {
					t.Error(err)
				}
			})
		}
		close(start)
		hooks.Wait()
		aside, err := os.ReadFile(dir.PrivatePath(recordFile) + ".1")
		if err != nil || len(aside) <= maxRecords {
			t.Fatalf("round %d: %d bytes are set aside, %v", round, len(aside), err)
		}
		now, err := os.ReadFile(dir.PrivatePath(recordFile))
		if err != nil || bytes.Count(append(aside, now...), []byte(`"hook":"suspend"`)) != 16 {
			t.Fatalf("round %d: of 16 records there are %d, %v", round, bytes.Count(append(aside, now...), []byte(`"hook":"suspend"`)), err)
		}
	}
}
