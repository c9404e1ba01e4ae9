package hook

import (
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A hook logs the same JSON to its file and to syslog; the filter to syslog only.
func TestLog(t *testing.T) {
	dir, err := os.MkdirTemp("", "l") // a short name: it is a socket's
	if err != nil {
		t.Fatal(err)
	}

	t.Cleanup(func() { os.RemoveAll(dir) })

	before := syslogSocket
	t.Cleanup(func() { syslogSocket = before })

	syslogSocket = filepath.Join(dir, "log")

	l, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: syslogSocket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()

	hears := func() string {
		_ = l.SetReadDeadline(time.Now().Add(10 * time.Second))
		message := make([]byte, 4096)

		n, err := l.Read(message)
		if err != nil {
			t.Fatal(err)
		}

		return string(message[:n])
	}

	Log(filepath.Join(dir, "logs"), "resume").Warn("power up", "nodes", "gpu-[1-2]\n{}")

	file, err := os.ReadFile(filepath.Join(dir, "logs", "resume.log"))
	if err != nil {
		t.Fatal(err)
	}

	var fields map[string]any
	if err := json.Unmarshal(file, &fields); err != nil || strings.Count(string(file), "\n") != 1 {
		t.Fatalf("%v %q", err, file)
	}

	if fields["level"] != "WARN" || fields["msg"] != "power up" || fields["nodes"] != "gpu-[1-2]\n{}" ||
		!strings.HasSuffix(fields["time"].(string), "Z") {
		t.Errorf("%v", fields)
	}

	if said := hears(); !strings.HasPrefix(said, "<30>") || !strings.Contains(said, " pcs-capacity-resume[") ||
		!strings.HasSuffix(said, "]: "+string(file)) {
		t.Errorf("syslog: %q", said)
	}

	FilterLog().Info("the job is refused", "code", "too-long")

	if said := hears(); !strings.HasPrefix(said, "<14>") ||
		!strings.Contains(said, `"msg":"the job is refused","code":"too-long"}`) {
		t.Errorf("syslog: %q", said)
	}
}

// What fits is left as it is, and what does not is cut between two characters.
func TestClip(t *testing.T) {
	for _, c := range []struct {
		text string
		n    int
		want string
	}{{"ab", 3, "ab"}, {"ab\xff", 3, "ab\xff"}, {"abcd", 3, "abc"}, {"abä", 3, "ab"}, {"aäb", 3, "aä"}} {
		if got := Clip(c.text, c.n); got != c.want {
			t.Errorf("%q to %d: %q", c.text, c.n, got)
		}
	}
}
