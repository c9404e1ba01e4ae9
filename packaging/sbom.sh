#!/bin/sh
# sbom.sh VERSION: prints what is compiled into the programs of this version, as CycloneDX 1.5:
# Go's own library, and the modules that the packages below cmd/ use.
set -eu
list=$(GOOS=linux go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}' ./cmd/...)
cat <<JSON
{
  "bomFormat": "CycloneDX",
  "specVersion": "1.5",
  "version": 1,
  "metadata": {"component": {"type": "application", "name": "pcs-capacity", "version": "$1"}},
  "components": [
$({ echo "std $(go env GOVERSION | sed 's/^go//')" && echo "$list" | grep . | sort -u; } |
	sed 's|^\(.*\) \(.*\)$|    {"type": "library", "name": "\1", "version": "\2", "purl": "pkg:golang/\1@\2"},|; $s/,$//')
  ]
}
JSON
