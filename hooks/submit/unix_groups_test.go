package submit

import (
	"os"
	"os/user"
	"strconv"
	"testing"
)

// Debian, as the tests need it, has user and group 65534 as nobody and nogroup, and group daemon.
func TestOutside(t *testing.T) {
	const nobody, stranger = 65534, 4242424
	own, err := user.LookupGroupId(strconv.Itoa(os.Getegid()))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		uid   int
		group string
		want  bool
	}{
		{nobody, "daemon", true},
		{nobody, "nogroup", false},          // the primary group
		{nobody, own.Name, false},           // the process has it, whoever the user is
		{nobody, "not-in-etc-group", false}, // may be in a directory service
		{stranger, "daemon", false},         // so may the user
		{0, "daemon", false},                // slurm.conf(5): root may use every partition
		{nobody, "daemon\n$(reboot)", false},
	} {
		if got := outside(c.uid, c.group); got != c.want {
			t.Errorf("user %d outside %q: %t", c.uid, c.group, got)
		}
	}
}
