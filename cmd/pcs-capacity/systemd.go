package main

import (
	"github.com/coreos/go-systemd/v22/daemon"
)

// tellSystemd tells systemd, where it started the program as a service, that the program is
// alive; and that it is ready, from the first pass on.
func tellSystemd(passed string) {
	words := daemon.SdNotifyWatchdog
	if passed != "" {
		words += "\n" + daemon.SdNotifyReady + "\nSTATUS=" + passed
	}
	_, _ = daemon.SdNotify(false, words) // nobody else could be told
}
