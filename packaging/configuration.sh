#!/bin/sh
# Makes what the packages say about settings from docs/configuration.md, the one place where
# each is explained: "settings" is config.toml with every setting in a comment, "manual" the
# manual page of section 5.
set -eu
page=${0%/*}/../docs/configuration.md
case "$1" in
settings)
	echo '# Settings of pcs-capacity: pcs-capacity-config.toml(5). Each is shown with its default, or'
	# shellcheck disable=SC2016 # the backquotes are Markdown's
	echo '# with an example where it has none; take the # away to change it. `pcs-capacity config`'
	echo '# shows what is in force.'
	echo
	# The tables stay, so that a setting that is taken out of its comment is in the right one.
	awk '/^```toml/ { inside = 1; next } /^```/ { inside = 0 }
		!inside { next }
		/^\[\[/ { example = 1 }
		/^ *# [a-z_]+ +=/ { sub(/# /, "") } # a setting that the example does without
		/^$/ || (/^\[/ && !example) || /^ *#/ { print; next }
		{ sub(/^ */, "&#"); print }' "$page"
	;;
manual)
	echo '% "PCS-CAPACITY-CONFIG.TOML" "5" "" "pcs-capacity" ""'
	printf '\n# NAME\n\npcs-capacity-config.toml - settings of pcs-capacity\n\n# DESCRIPTION\n'
	sed '1d; s/\[\([^]]*\)\]([^)]*)/\1/g' "$page"
	printf '\n# SEE ALSO\n\n**pcs-capacity**(1), **pcs-capacity-config**(1)\n'
	;;
esac
