#!/usr/bin/env bash
# Copies a build to a host and swaps it in.
set -euo pipefail

host=${1:?usage: deploy.sh HOST [BUILD]}
build=${2:-dist}
stamp=$(date -u +%Y%m%dT%H%M%SZ)

fail() { printf '%s\n' "$*" >&2; exit 1; }

[[ -d $build ]] || fail "no such folder: $build"
for file in "$build"/*.{js,css}; do
	[[ -s $file ]] && gzip -9 -k -f "$file" || true
done

rsync -az --delete "$build/" "$host:/srv/app/releases/$stamp/"
ssh "$host" bash -s -- "$stamp" <<'EOF'
cd /srv/app && ln -sfn "releases/$1" current && ls -1dt releases/* | tail -n +6 | xargs -r rm -rf
EOF
