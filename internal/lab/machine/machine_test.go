package machine

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Two machines have names, files, processes and uptimes of their own, and one network, in which
// this program can listen. Nothing of them is left.
func TestMachines(t *testing.T) {
	if err := Possible(); err != nil {
		t.Skip(err)
	}

	dir := t.TempDir()
	shared := t.TempDir()

	one, err := Start(
		t.Context(),
		Config{
			Name:    "one",
			Address: "10.0.0.1/16",
			Folder:  filepath.Join(dir, "one"),
			Binds:   map[string]string{"/srv/shared": shared},
			Files: map[string]string{
				"/etc/greeting": "hello",
			},
			Hidden: []string{"/etc/passwd"},
			Init:   "echo $(cat /etc/greeting) >/srv/shared/init\n",
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer one.Stop()

	two, err := Start(
		t.Context(),
		Config{
			Name:    "two",
			Address: "10.0.0.2/16",
			Switch:  one,
			Folder:  filepath.Join(dir, "two"),
			Init:    "cut -d. -f1 /proc/uptime >/tmp/up\nsleep 1000 &\n",
		},
	)
	if err != nil {
		t.Fatal(err)
	}
	defer two.Stop()

	listener, err := one.Listen("10.0.0.1:80")
	if err != nil {
		t.Fatal(err)
	}

	said := make(chan string, 1)

	server := &http.Server{
		ReadHeaderTimeout: time.Second,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "from outside")

			said <- r.RemoteAddr
		}),
	}
	go server.Serve(listener)
	defer server.Close()

	for _, c := range []struct {
		m            *Machine
		script, want string
	}{
		{one, "hostname", "one"},
		{two, "hostname", "two"},
		{one, "cat /srv/shared/init", "hello"},
		{one, "ls /etc/passwd 2>&1 || :", "No such file"},
		{two, "cat /etc/greeting 2>&1 || :", "No such file"},
		{two, `[ "$(cat /tmp/up)" -lt "$(cut -d. -f1 /proc/uptime)" ] && echo booted`, "booted"},
		{two, "echo $SECRET", "set"},
		{two, "curl -s http://10.0.0.1/", "from outside"},
	} {
		out, err := c.m.Run(t.Context(), c.script, "SECRET=set")
		// init may still write it
		for !strings.Contains(out, c.want) && strings.Contains(c.script, "cat /") && t.Context().Err() == nil {
			out, err = c.m.Run(t.Context(), c.script, "SECRET=set")
		}

		if err != nil || !strings.Contains(out, c.want) {
			t.Errorf("%s: %s says %q, %v, want %q", c.m.name, c.script, out, err, c.want)
		}
	}

	if from := <-said; !strings.HasPrefix(from, "10.0.0.2:") {
		t.Errorf("the connection comes from %s", from)
	}

	if _, err := os.Stat("/etc/greeting"); err == nil {
		t.Error("a file of a machine is on this one")
	}

	for _, m := range []*Machine{two, one} {
		if err := m.Stop(); err != nil {
			t.Error(err)
		}
	}

	if left, _ := filepath.Glob(filepath.Join(dir, "*", "disk")); len(left) > 0 || one.cmd.ProcessState == nil {
		t.Errorf("left: %q, %v", left, one.cmd.ProcessState)
	}
}
