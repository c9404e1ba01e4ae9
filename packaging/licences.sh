#!/bin/sh
# Prints the licences of everything that is compiled into the programs: Go itself, and the
# modules that the packages below cmd/ use.
set -eu
one() { # NAME FOLDER
	found=
	for file in "$2"/*; do
		case $(basename "$file" | tr '[:upper:]' '[:lower:]') in
		license* | licence* | copying* | notice*) ;;
		*) continue ;;
		esac
		[ -f "$file" ] || continue
		found=yes
		printf '\n==== %s: %s ====\n\n' "$1" "${file##*/}"
		cat "$file"
	done
	[ -n "$found" ] || { echo "$1 has no licence in $2" >&2; exit 1; }
}
one "$(go env GOVERSION)" "$(go env GOROOT)"
list=$(GOOS=linux go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}@{{.Version}} {{.Dir}}{{end}}{{end}}' ./cmd/...)
echo "$list" | sort -u | while read -r name folder; do
	[ -z "$name" ] || one "$name" "$folder"
done
