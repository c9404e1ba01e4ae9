#!/bin/sh
# Makes what the packages say about settings from docs/configuration.md, the one place where
# each is explained: "settings" is config.toml with the first three in comments, "manual" the
# manual page of section 5.
set -eu
page=${0%/*}/../docs/configuration.md
case "$1" in
settings)
	echo '# Settings of pcs-capacity: pcs-capacity-config.toml(5) has them all, with their defaults.'
	# shellcheck disable=SC2016 # the backquotes are Markdown's
	echo '# `pcs-capacity config` shows what is in force.'
	echo
	# shellcheck disable=SC2016 # the same
	sed -n -E '/^```toml/,/^```/{ /^(region|cluster|state_dir) /s/^/#/p; }' "$page"
	;;
manual)
	echo '% "PCS-CAPACITY-CONFIG.TOML" "5" "" "pcs-capacity" ""'
	printf '\n# NAME\n\npcs-capacity-config.toml - settings of pcs-capacity\n\n# DESCRIPTION\n'
	sed '1d; s/\[\([^]]*\)\]([^)]*)/\1/g' "$page"
	printf '\n# SEE ALSO\n\n**pcs-capacity**(1), **pcs-capacity-config**(1)\n'
	;;
esac
