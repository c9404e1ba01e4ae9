#!/bin/sh
# Runs lintian and rpmlint over the packages in dist/. A finding that is not fixed has its
# reason in lintian-overrides or rpmlint.toml.
set -eu
cd "${0%/*}/.."
lintian --fail-on error,warning --allow-root dist/*.deb
# nfpm writes absolute names into an RPM, and rpmlint unpacks it with plain cpio: as root
# that would write onto this machine.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
printf '#!/bin/sh\nexec %s --no-absolute-filenames "$@"\n' "$(command -v cpio)" >"$tools/cpio"
chmod +x "$tools/cpio"
PATH="$tools:$PATH" rpmlint --strict --config packaging/rpmlint.toml dist/*.rpm
