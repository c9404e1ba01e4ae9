#!/bin/sh
# suite.sh SUITE COMMAND [ARG...]: runs a command, as root, in a Debian of another suite, with that
# suite's Slurm. The checkout, Go and its caches are where they are outside; the network is this
# machine's. What the command started ends with it, and nothing stays mounted.
#
# The suite is made in .suites/SUITE at the first time, with the packages of PACKAGES from MIRROR: 350 MB.
set -eu
suite=$1 here=$PWD root=$PWD/.suites/$1
shift
more=sackd # of its own package, which bookworm has not
[ "$suite" != bookworm ] || more=
if ! [ -e "$root/etc/suite.made" ]; then
	rm -rf "$root"
	mkdir -p "$root"
	# A mirror may be a snapshot, whose index has run out.
	mmdebstrap --quiet --variant=apt --aptopt='Acquire::Languages "none"' --aptopt='Acquire::Check-Valid-Until "false"' \
		--include="tzdata,git,mount,util-linux-extra,$(echo "$PACKAGES" $more | tr " " ,)" "$suite" "$root" "${MIRROR:-http://deb.debian.org/debian}"
	# slurmdbd fails with MariaDB's client library 11.8.9: "Number of columns in result (=1) set
	# exceeds maximum allowed number of columns (=0)".
	if [ "$suite" != bookworm ]; then
		echo "deb ${MIRROR:-http://deb.debian.org/debian} bookworm main" >"$root/etc/apt/sources.list.d/bookworm.list"
		chroot "$root" apt-get -qq -o Acquire::Check-Valid-Until=false update
		chroot "$root" apt-get -qq install -y --allow-downgrades --no-install-recommends libmariadb3/bookworm >/dev/null
	fi
	# MariaDB's installation looks the machine's own name up.
	echo "127.0.0.1 localhost $(hostname)" >"$root/etc/hosts"
	touch "$root/etc/suite.made"
fi
export root here
# shellcheck disable=SC2016 # the inner shell expands it
exec unshare --mount --pid --fork --kill-child sh -eu -c '
	mount --bind "$root" "$root" # a root that namespaces of tests can have as theirs
	mount --rbind /dev "$root/dev"
	mount -t proc proc "$root/proc"
	for folder in "$here" $(go env GOROOT GOMODCACHE GOCACHE); do
		mkdir -p "$root$folder"
		mount --bind "$folder" "$root$folder"
	done
	exec chroot "$root" env -i -C "$here" HOME=/root PATH="$(go env GOROOT)/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin" \
		GOMODCACHE="$(go env GOMODCACHE)" GOCACHE="$(go env GOCACHE)" CGO_ENABLED=0 GOFLAGS=-trimpath "$@"' sh "$@"
